"""What the actor does with a job before its first step: the hold under a pin, and jobs that are no longer managed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm_plugin.test_act import Desk
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state.journal import Journal

Make = Callable[..., SlurmJob]


@pytest.mark.parametrize(("priority", "holds"), [(0, 0), (1, 1), (100, 1)])
def test_a_job_is_held_before_it_is_pinned(journal: Journal, pending: Make, priority: int, holds: int) -> None:
    """slurmctld could start an eligible job between the two halves of a pin. One that is held already is not held again."""
    desk = Desk(journal, pending(priority=1, reason="None"))
    if not priority:
        desk.actor.hold(desk.see(), 1001.0)
    desk.slurm.change(priority=priority)
    desk.see()
    desk.slurm.calls.clear()
    desk.start()
    desk.actor.advance(1100.0)
    changing = [call for call in desk.slurm.calls if call in ("hold", "pin", "lift")]
    assert changing == ["hold"] * holds + ["pin", "lift"]
    assert desk.job.state == "RUNNING"


def test_a_job_that_left_our_partitions_is_forgotten_without_a_hold(journal: Journal, pending: Make) -> None:
    desk = Desk(journal, pending(priority=1, reason="None"))
    desk.actor.hold(desk.see(), 1001.0)
    assert desk.job.priority == 0
    desk.slurm.change(partition="other")
    desk.see()
    desk.actor.release_unmanaged(1002.0)
    assert desk.job.priority == 1
    assert "1" not in desk.ledger.jobs
