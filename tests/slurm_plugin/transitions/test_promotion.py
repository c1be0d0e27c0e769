"""A promotion resets a job's service, and its decision is in the journal whenever the reset is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.slurm_plugin.transitions.actor_harness import NO_ROWS, ActorHarness
from tiresias.scheduler.model import Plan
from tiresias.slurm_plugin.cycle.act_stage import promote
from tiresias.slurm_plugin.cycle.decision_log import DecisionLog
from tiresias.slurm_plugin.cycle.job_memory import JobMemory
from tiresias.slurm_plugin.cycle.services import Services
from tiresias.slurm_plugin.state.quarantine import Quarantine

PLAN = Plan(NO_ROWS, NO_ROWS, NO_ROWS, promoted=("1",))


class Killed(BaseException):
    """The controller is killed."""


def promoted(harness: ActorHarness) -> None:
    services = SimpleNamespace(clock=lambda: 2000.0, decisions=DecisionLog(harness.journal), quarantine=Quarantine())
    memory = SimpleNamespace(actor=harness.actor, ledger=harness.ledger)
    promote(PLAN, cast(JobMemory, memory), cast(Services, services))


def test_the_service_counts_from_the_promotion(running_job: ActorHarness) -> None:
    promoted(running_job)
    running_job.restart_controller()
    assert running_job.row.reset == 2000.0
    assert [one.action for one in running_job.journal.decisions("1")] == ["promote"]


def test_a_kill_leaves_no_reset_without_its_decision(
    running_job: ActorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = running_job.ledger.save

    def killed_after(row: object) -> None:
        save(row)  # type: ignore[arg-type]
        raise Killed

    monkeypatch.setattr(running_job.ledger, "save", killed_after)
    with pytest.raises(Killed):
        promoted(running_job)
    running_job.restart_controller()
    assert running_job.row.reset == 2000.0
    assert [one.action for one in running_job.journal.decisions("1")] == ["promote"]
