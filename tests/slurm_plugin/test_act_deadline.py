"""What becomes of a preemption whose job has not parked by the deadline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm_plugin.test_act import CONFIG, Desk
from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state.journal import Journal

Make = Callable[..., SlurmJob]
BEGAN = 1100.0


@pytest.fixture
def runs(journal: Journal, running: Make, pending: Make) -> Desk:
    """A run for whose GPUs job 2 waits; it has got the signal."""
    desk = Desk(journal, running(1000))
    desk.slurm.jobs["2"] = pending(id="2", raw_id=2, priority=1, reason="None")
    desk.see()
    desk.preempt(BEGAN)
    desk.actor.advance(BEGAN)
    assert desk.slurm.calls.count("signal") == 1
    return desk


@pytest.mark.parametrize(
    ("report", "requeued"),
    [
        (JobReport(0, "saving", True, 7), True),  # back to the checkpoint of step 7
        (JobReport(0, "saving", True, 0), True),
        (JobReport(0, "saving", True, -1), False),  # it has none: all of the run would be lost
        (JobReport(0, "running", True, 7), False),  # it takes no notice of the signal
        (JobReport(0, "ended", True, 7), False),
        (JobReport(1, "saving", True, 7), False),  # what another run reports
    ],
)
def test_at_the_deadline_only_a_job_that_saves_and_has_a_checkpoint_is_requeued(
    runs: Desk, report: JobReport, requeued: bool
) -> None:
    runs.report = report
    runs.look(BEGAN + CONFIG.deadline - 0.1)
    assert "requeue" not in runs.slurm.calls, "a run that has not parked is not ended before the deadline"
    runs.look(BEGAN + CONFIG.deadline)
    runs.look(BEGAN + CONFIG.deadline + 1)
    assert ("requeue" in runs.slurm.calls) == requeued
    assert (runs.job.restarts, runs.job.state) == ((1, "PENDING") if requeued else (0, "RUNNING"))
    assert (runs.job.priority > 0) != requeued, "a job that runs on is not held"
    assert bool(runs.row.unmovable) != requeued


@pytest.mark.parametrize(
    ("report", "seconds", "signals"),
    [
        (JobReport(0, "running", True, 7), CONFIG.deadline / 4, 2),
        (JobReport(0, "running", True, 7), CONFIG.deadline / 4 - 0.1, 1),
        (JobReport(1, "saving", True, 7), CONFIG.deadline / 4, 2),
        (JobReport(0, "saving", True, 7), CONFIG.deadline / 4, 1),
    ],
)
def test_a_signal_that_got_lost_is_sent_again(runs: Desk, report: JobReport, seconds: float, signals: int) -> None:
    """Not to a run that saves: it has got it."""
    runs.report = report
    runs.look(BEGAN + seconds)
    assert runs.slurm.calls.count("signal") == signals


def test_a_hold_that_an_admin_placed_for_after_the_run_stays_the_admins(
    journal: Journal, running: Make, pending: Make
) -> None:
    """It has priority 0 while it runs, and not by us: the preemption neither holds it nor takes the hold for its own."""
    desk = Desk(journal, running(1000, priority=0, reason="JobHeldAdmin"))
    desk.slurm.jobs["2"] = pending(id="2", raw_id=2, priority=1, reason="None")
    desk.see()
    desk.parks()
    desk.preempt(BEGAN)
    desk.actor.advance(BEGAN)
    desk.look(BEGAN + 1)
    assert (desk.job.state, desk.job.restarts, desk.job.priority) == ("PENDING", 1, 0)
    assert not desk.row.held
