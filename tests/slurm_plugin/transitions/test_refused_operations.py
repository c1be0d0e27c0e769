"""Transitions whose operations Slurm refuses."""

from __future__ import annotations

from tests.slurm_plugin.transitions.actor_harness import ActorHarness
from tiresias.slurm_plugin.backends.interface import JobRefused, NotRequeueable


def test_a_refusal_because_the_run_has_ended_is_ignored(running_job: ActorHarness) -> None:
    """The owner requeued the job between the poll and the signal."""
    running_job.preempt()
    running_job.slurm.requeue_record("1")
    running_job.slurm.fail("signal", JobRefused("job 1: is not running"))
    running_job.actor.advance(1100)
    running_job.poll(1101)
    assert running_job.intents() == []
    assert (running_job.row.held, running_job.row.unmovable, running_job.job.priority) == (True, "", 0)


def test_a_job_that_may_not_be_signalled_runs_on_unheld(running_job: ActorHarness) -> None:
    running_job.preempt()
    running_job.slurm.fail("signal", JobRefused("job 1: Access denied"))
    running_job.actor.advance(1100)
    assert running_job.intents() == []
    assert (running_job.job.state, running_job.job.priority, running_job.row.held) == ("RUNNING", 1, False)
    assert running_job.row.unmovable == "preemption_refused: job 1: Access denied"


def test_a_job_that_cannot_be_requeued_runs_on_unheld(running_job: ActorHarness) -> None:
    running_job.report_parked()
    running_job.preempt()
    running_job.slurm.fail("requeue", NotRequeueable("job 1: only batch jobs"))
    running_job.actor.advance(1100)
    assert running_job.intents() == []
    assert (running_job.job.state, running_job.job.restarts, running_job.job.priority, running_job.row.held) == (
        "RUNNING",
        0,
        1,
        False,
    )
    assert running_job.row.unmovable == "not_requeueable: job 1: only batch jobs"


def test_a_hold_that_slurm_refuses_is_repeated_and_reported_once_in_a_back_off(held_job: ActorHarness) -> None:
    """A killed slurmctld of 22.05 refused the holds of two jobs for a minute."""
    held_job.slurm.change(priority=1)
    why = "job 1: the DB index is being set, try again in a bit"
    for now in (1100.0, 1100.5, 1101.0, 1159.0, 1161.0):
        held_job.slurm.fail("hold", JobRefused(why))
        held_job.actor.hold(held_job.refresh(), now)
    assert held_job.job.priority == 1
    assert held_job.news() == [f"refused: {why}"] * 2
    held_job.actor.hold(held_job.refresh(), 1162.0)
    assert held_job.job.priority == 0


def test_the_delay_after_a_refused_start_doubles(held_job: ActorHarness) -> None:
    now, waited = 1100.0, []
    for _ in range(6):
        held_job.start(now)
        held_job.slurm.fail("pin", JobRefused("job 1: Requested node configuration is not available"))
        held_job.actor.advance(now)
        assert held_job.journal.open_intents() == []
        waited.append(held_job.row.not_before - now)
        now = held_job.row.not_before
    assert waited == [60, 120, 240, 480, 960, 960]
    held_job.start(now)
    held_job.poll(now)
    held_job.poll(now + 1)
    assert (held_job.row.failures, held_job.row.not_before) == (0, 0.0)
