"""Transitions while Slurm does not answer."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable


@pytest.mark.parametrize("controller", ["same controller", "restarted controller"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("operation", "step"),
    [
        ("hold", "hold"),
        ("signal", "signal"),
        ("job", "parked"),
        ("pin", "parked"),
        ("lift", "parked"),
        ("prioritize", "parked"),
        ("requeue", "requeue"),
    ],
)
def test_a_preemption_without_an_answer_keeps_its_step_and_the_retry_completes(
    running_job: ActorHarness, operation: str, step: str, when: str, controller: str
) -> None:
    running_job.report_parked()
    running_job.preempt()
    running_job.slurm.fail(operation, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        running_job.actor.advance(1100)
    assert [intent.step for intent in running_job.intents()] == [step]
    if controller == "restarted controller":
        running_job.restart_controller()
    running_job.poll(1101)
    assert running_job.intents() == []
    assert (running_job.job.state, running_job.job.restarts, running_job.job.priority) == ("PENDING", 1, 0), (
        "requeued once, and held"
    )
    assert (running_job.row.held, running_job.row.preemptions, running_job.row.last_preempted) == (True, 1, 1101)


@pytest.mark.parametrize("controller", ["same controller", "restarted controller"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", ["job", "pin", "lift"])
def test_a_start_without_an_answer_keeps_its_step_and_the_retry_completes(
    held_job: ActorHarness, operation: str, when: str, controller: str
) -> None:
    held_job.start()
    held_job.slurm.fail(operation, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        held_job.actor.advance(1100)
    assert [intent.step for intent in held_job.journal.open_intents()] == ["start"]
    if controller == "restarted controller":
        held_job.restart_controller()
    held_job.poll(1101)
    held_job.poll(1102)
    assert held_job.journal.open_intents() == []
    assert (held_job.job.state, held_job.job.restarts) == ("RUNNING", 0)
    assert any(one == "running: on gpu02:4" for one in held_job.news())


def test_a_restart_right_after_the_release_leaves_no_hold_in_the_journal(held_job: ActorHarness) -> None:
    """Otherwise an administrator's hold, placed while the job runs, would be treated as the controller's after a requeue."""
    held_job.start()
    held_job.slurm.fail("lift", SlurmUnavailable("no answer"), "after")
    with pytest.raises(SlurmUnavailable):
        held_job.actor.advance(1100)
    held_job.restart_controller()
    assert held_job.row.held, "the hold is in the journal"
    held_job.poll(1101)
    held_job.poll(1102)
    assert (held_job.job.state, held_job.row.held) == ("RUNNING", False)
    held_job.slurm.change(priority=0, reason="JobHeldAdmin")
    held_job.slurm.requeue_record("1")
    assert not held_job.ledger.free(held_job.refresh()[0])


def test_a_deadline_does_not_grow_when_the_clock_is_set_back(running_job: ActorHarness) -> None:
    running_job.preempt(4600)
    running_job.actor.advance(4600)
    running_job.poll(1000)
    running_job.poll(1020)
    assert running_job.intents() == []
    assert running_job.row.unmovable == "not_saved: 20"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_could_not_save_is_released_once_slurm_answers(running_job: ActorHarness, when: str) -> None:
    running_job.preempt()
    running_job.actor.advance(1100)
    running_job.slurm.fail("release", SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        running_job.actor.advance(1121)
    assert [intent.step for intent in running_job.intents()] == ["unhold"]
    running_job.restart_controller()
    running_job.poll(1122)
    assert running_job.intents() == []
    assert (running_job.job.state, running_job.job.priority > 0, running_job.row.held) == ("RUNNING", True, False)
    assert running_job.row.unmovable == "not_saved: 20"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", ["hold", "job"])
def test_a_job_that_slurm_did_not_start_is_held_again_once_it_answers(
    held_job: ActorHarness, operation: str, when: str
) -> None:
    held_job.wait_in_vain("PartitionTimeLimit")
    held_job.slurm.fail(operation, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        held_job.actor.advance(1131)
    assert [intent.step for intent in held_job.journal.open_intents()] == ["rehold"]
    held_job.actor.advance(1132)
    assert held_job.journal.open_intents() == []
    assert (held_job.job.priority, held_job.row.held, held_job.row.not_before) == (0, True, 1192)
    assert held_job.news()[-1] == "not started: Slurm reports PartitionTimeLimit; tried again in 60 s"


def test_a_job_that_is_cancelled_right_before_it_is_held_again_has_ended(held_job: ActorHarness) -> None:
    """Its record is older than the cancellation: it did not run, and its start is not reported as one."""
    held_job.wait_in_vain("PartitionTimeLimit")
    held_job.slurm.change(state="CANCELLED")
    held_job.actor.advance(1131)
    assert held_job.journal.open_intents() == []
    assert held_job.news()[-1] == "ended: at once"


@pytest.mark.parametrize("operation", ["job", "release", "unpin", "hold"])
def test_a_failed_release_is_reported_with_the_command_that_lifts_the_hold(
    held_job: ActorHarness, operation: str
) -> None:
    held_job.slurm.starts = False
    held_job.start()
    held_job.actor.advance(1100)
    held_job.slurm.fail(operation, SlurmUnavailable("no answer"))
    assert held_job.actor.release_all(1101) == ["job 1 stays held: no answer; scontrol release 1"]
    held_job.restart_controller()
    assert held_job.actor.release_all(1102) == []
    assert (held_job.job.priority, held_job.job.required_nodes, held_job.row.pinned, held_job.row.held) == (
        1,
        (),
        False,
        False,
    )
