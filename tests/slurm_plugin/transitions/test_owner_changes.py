"""Changes by owners and by Slurm in the short time between two operations of a transition."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable


def test_a_job_that_vanishes_while_it_drains_has_ended(running_job: ActorHarness) -> None:
    running_job.report_parked()
    running_job.preempt()
    running_job.slurm.fail("job", SlurmUnavailable("no answer"), "after")
    with pytest.raises(SlurmUnavailable):
        running_job.actor.advance(1100)
    del running_job.slurm.jobs["1"]
    running_job.poll(1101)
    running_job.poll(1102)
    assert running_job.intents() == []
    assert running_job.news()[-1] == "ended: while it was being preempted"


def test_a_job_that_is_cleaned_up_is_not_parked_yet(running_job: ActorHarness) -> None:
    running_job.report_parked()
    running_job.preempt()
    original = running_job.slurm.requeue_record

    def requeue(job_id: str) -> None:
        original(job_id)
        running_job.slurm.change(completing=True)

    running_job.slurm.requeue_record = requeue  # type: ignore[method-assign]
    running_job.actor.advance(1100)
    assert [intent.step for intent in running_job.intents()] == ["drain"]
    running_job.slurm.change(completing=False)
    running_job.poll(1103)
    assert running_job.news()[-1] == "parked: 3.00 s after the decision"


def test_an_owners_hold_before_the_start_stays(held_job: ActorHarness) -> None:
    held_job.start()
    held_job.slurm.change(reason="JobHeldUser")
    held_job.actor.advance(1100)
    assert held_job.journal.open_intents() == []
    assert "pin" not in held_job.slurm.calls
    assert held_job.actor.release_all(1101) == []
    assert (held_job.job.priority, held_job.job.reason) == (0, "JobHeldUser")


def test_an_owners_hold_during_the_start_stays(held_job: ActorHarness) -> None:
    held_job.slurm.starts = False
    held_job.start()
    held_job.actor.advance(1100)
    held_job.slurm.change(priority=0, reason="JobHeldUser")
    held_job.poll(1131)
    assert held_job.journal.open_intents() == []
    assert held_job.job.reason == "JobHeldUser"
    assert held_job.row.not_before == 0


def test_a_job_that_waits_again_gets_its_own_request_back(held_job: ActorHarness) -> None:
    held_job.start()
    held_job.poll(1100)
    held_job.poll(1101)
    started = held_job.job
    assert started.required_nodes == ("gpu02",)
    held_job.slurm.requeue_record("1")  # by its owner
    held_job.actor.hold(held_job.refresh(), 1102)
    held_job.actor.unpin(held_job.refresh(), 1102)
    assert (held_job.job.required_nodes, held_job.job.priority, held_job.row.pinned) == ((), 0, False)


def test_nodes_that_slurm_did_not_start_a_job_on_come_last_for_a_while(held_job: ActorHarness) -> None:
    held_job.slurm.starts = False
    held_job.start()
    held_job.actor.advance(1100)
    held_job.slurm.change(reason="ReqNodeNotAvail")
    held_job.poll(1131)
    assert (held_job.row.failed_nodes, held_job.row.failed_until) == ("gpu02", 1131 + 2 * 60)
    held_job.restart_controller()
    assert (held_job.row.failed_nodes, held_job.row.failed_until) == ("gpu02", 1131 + 2 * 60)
