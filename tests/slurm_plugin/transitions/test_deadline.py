"""Preemptions whose job has not parked by the deadline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm_plugin.transitions.actor_harness import CONFIG, ActorHarness
from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.backends.interface import NotSignalled, SlurmJob
from tiresias.slurm_plugin.state.intents import IntentStep
from tiresias.slurm_plugin.state.journal import Journal

Make = Callable[..., SlurmJob]
BEGAN = 1100.0


@pytest.fixture
def running_job(journal: Journal, running: Make, pending: Make) -> ActorHarness:
    """Job 1 has received the checkpoint signal; job 2 waits for its GPUs."""
    harness = ActorHarness(journal, running(1000))
    harness.slurm.jobs["2"] = pending(id="2", raw_id=2, priority=1, reason="None")
    harness.refresh()
    harness.preempt(BEGAN)
    harness.actor.advance(BEGAN)
    assert harness.slurm.calls.count("signal") == 1
    return harness


@pytest.mark.parametrize(
    ("report", "requeued"),
    [
        (JobReport(0, "saving", True, 7), True),  # back to the checkpoint of step 7
        (JobReport(0, "saving", True, 0), True),
        (JobReport(0, "saving", True, -1), False),  # without a checkpoint the whole run would be lost
        (JobReport(0, "running", True, 7), False),  # it ignores the signal
        (JobReport(0, "ended", True, 7), False),
        (JobReport(1, "saving", True, 7), False),  # the report of another run
    ],
)
def test_at_the_deadline_only_a_job_that_saves_and_has_a_checkpoint_is_requeued(
    running_job: ActorHarness, report: JobReport, requeued: bool
) -> None:
    running_job.report = report
    running_job.poll(BEGAN + CONFIG.deadline - 0.1)
    assert "requeue" not in running_job.slurm.calls, "a run that has not parked is not ended before the deadline"
    running_job.poll(BEGAN + CONFIG.deadline)
    running_job.poll(BEGAN + CONFIG.deadline + 1)
    assert ("requeue" in running_job.slurm.calls) == requeued
    assert (running_job.job.restarts, running_job.job.state) == ((1, "PENDING") if requeued else (0, "RUNNING"))
    assert (running_job.job.priority > 0) != requeued, "a job that runs on is not held"
    assert bool(running_job.row.unmovable) != requeued


@pytest.mark.parametrize(
    ("report", "seconds", "signals"),
    [
        (JobReport(0, "running", True, 7), CONFIG.deadline / 4, 2),
        (JobReport(0, "running", True, 7), CONFIG.deadline / 4 - 0.1, 1),
        (JobReport(1, "saving", True, 7), CONFIG.deadline / 4, 2),
        (JobReport(0, "saving", True, 7), CONFIG.deadline / 4, 1),
    ],
)
def test_a_lost_signal_is_sent_again(
    running_job: ActorHarness, report: JobReport, seconds: float, signals: int
) -> None:
    """A run that saves has received it."""
    running_job.report = report
    running_job.poll(BEGAN + seconds)
    assert running_job.slurm.calls.count("signal") == signals


@pytest.mark.parametrize("saves", [True, False])
def test_a_signal_that_slurmctld_does_not_deliver_is_no_refusal(running_job: ActorHarness, saves: bool) -> None:
    """Measured on 22.05: the program saved all the same. One that does not runs on after the deadline."""
    running_job.slurm.fail("signal", NotSignalled("slurmctld answers, and does not signal it"))
    running_job.poll(BEGAN + CONFIG.deadline / 4)
    assert running_job.slurm.calls.count("signal") == 2
    assert [intent.step for intent in running_job.journal.open_intents()] == [IntentStep.WAIT]
    if saves:
        running_job.report_parked()
    running_job.poll(BEGAN + CONFIG.deadline)
    running_job.poll(BEGAN + CONFIG.deadline + 1)
    assert (running_job.job.restarts, running_job.job.state) == ((1, "PENDING") if saves else (0, "RUNNING"))


def test_a_hold_that_an_administrator_placed_during_the_run_stays(
    journal: Journal, running: Make, pending: Make
) -> None:
    """It has priority 0 while it runs, but not from the controller: the preemption neither holds the job nor owns the hold."""
    harness = ActorHarness(journal, running(1000, priority=0, reason="JobHeldAdmin"))
    harness.slurm.jobs["2"] = pending(id="2", raw_id=2, priority=1, reason="None")
    harness.refresh()
    harness.report_parked()
    harness.preempt(BEGAN)
    harness.actor.advance(BEGAN)
    harness.poll(BEGAN + 1)
    assert (harness.job.state, harness.job.restarts, harness.job.priority) == ("PENDING", 1, 0)
    assert not harness.row.held


@pytest.mark.parametrize(
    ("restart", "state", "boot", "late"),
    [
        (0, "ended", 1050, False),
        (0, "ended", 990, True),
        (0, "running", 1050, True),
        (1, "running", 1050, False),  # a later run, which slurmctld forgot as well
        (1, "running", 990, True),
    ],
)
def test_an_end_that_a_killed_slurmctld_forgot_is_no_late_save(
    running_job: ActorHarness, restart: int, state: str, boot: int, late: bool
) -> None:
    """The run began at 1000. Jobs of its kind stay known to save."""
    running_job.slurm.boot, running_job.report = boot, JobReport(restart, state, True, 7)
    running_job.poll(BEGAN + CONFIG.deadline)
    assert bool(running_job.ledger.saves.late_until(running_job.row)) == late
