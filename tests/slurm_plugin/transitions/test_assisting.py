"""Preemptions of mode assist: all victims save first, Slurm starts the beneficiary, and the victims are released after it."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import CONFIG, ActorHarness, Make
from tests.slurm_plugin.transitions.test_handover import Group, plan
from tiresias.scheduler.model import Preempt
from tiresias.slurm_plugin.backends.interface import JobRefused
from tiresias.slurm_plugin.state.journal import Journal

WHY = {"1": "for job 3: gain", "2": "for job 3: gain"}


@pytest.fixture
def group(journal: Journal, running: Make, pending: Make) -> Group:
    """Jobs 1 and 2 are preempted for job 3, which Slurm ranks first."""
    found = Group(journal, running, pending)
    found.actor.assist(plan((Preempt("1", "3"), Preempt("2", "3")), ()), WHY, 1490)
    return found


def drained(group: Group, now: float = 1493) -> None:
    """Let both save and release their GPUs."""
    group.poll(1491)
    group.parked("1", "2")
    group.poll(1492)
    group.poll(now)


def held(group: ActorHarness) -> list[str]:
    return [job.id for job in group.slurm.jobs.values() if job.priority == 0]


def test_no_victim_is_requeued_before_all_have_saved(group: Group) -> None:
    group.poll(1491)
    group.parked("1")
    group.poll(1492)
    assert group.steps() == {"1": "parked", "2": "wait"}
    assert "requeue" not in group.slurm.calls
    assert group.why("1") == ["preempt: for job 3: gain"]


def test_the_beneficiary_is_neither_held_nor_pinned_and_the_victims_wait_for_it(group: Group) -> None:
    drained(group)
    assert group.steps() == {"1": "yielded", "2": "yielded"}
    assert not {"pin", "prioritize", "lift"} & {*group.slurm.calls}
    assert held(group) == ["1", "2"]
    assert [group.ledger.jobs[job].preemptions for job in "12"] == [1, 1]
    group.slurm.change("3", state="RUNNING", start_time=1500)
    group.poll(1503)
    assert group.steps() == {}
    assert held(group) == []
    assert group.why("1")[-1] == "parked: 12.00 s after the decision; job 3 runs"


def test_a_restarted_controller_continues(group: Group) -> None:
    drained(group)
    group.restart_controller()
    group.poll(1502)
    assert held(group) == ["1", "2"]
    group.slurm.change("3", state="RUNNING", start_time=1500)
    group.poll(1503)
    assert held(group) == []


def test_the_victims_are_released_where_slurm_does_not_start_the_beneficiary(group: Group) -> None:
    drained(group)
    group.poll(1493 + CONFIG.start_timeout)
    assert held(group) == []
    row = group.ledger.jobs["3"]
    assert row.not_before == 1523 + CONFIG.backoff
    assert row.failures == 1, "each of the two victims counts"
    assert "no job is preempted again for 60 s" in group.why("2")[-1].replace("for which ", "")


def test_a_start_ends_the_back_off(group: Group) -> None:
    group.ledger.jobs["3"].failures = 2
    drained(group)
    group.slurm.change("3", state="RUNNING", start_time=1500)
    group.poll(1503)
    assert (group.ledger.jobs["3"].failures, group.ledger.jobs["3"].not_before) == (0, 0.0)


def test_a_beneficiary_that_is_cancelled_before_the_save_spares_the_victims(group: Group) -> None:
    group.slurm.jobs.pop("3")
    for now in range(1491, 1496):
        group.poll(now)
    assert group.steps() == {}
    assert held(group) == []
    assert "requeue" not in group.slurm.calls


def test_a_beneficiary_that_ends_afterwards(group: Group) -> None:
    drained(group)
    group.slurm.jobs.pop("3")
    group.poll(1503)
    assert (group.steps(), held(group)) == ({}, [])


def test_a_refused_release_is_made_again(group: Group) -> None:
    drained(group)
    group.slurm.jobs.pop("3")
    group.slurm.fail("release", JobRefused("job 1: busy"))
    group.poll(1503)
    assert held(group) == ["1"]
    group.actor.release_waiting(group.refresh(), 1504)
    assert held(group) == []


def test_a_victim_that_ends_after_the_snapshot(group: Group) -> None:
    drained(group)
    seen = group.refresh()
    group.slurm.change("1", state="COMPLETED", end_time=1502)
    group.refresh()
    group.actor.release_waiting(seen, 1503)
    assert "1" not in group.ledger.jobs


def test_waiting_jobs_of_another_mode_are_released(held_job: ActorHarness) -> None:
    held_job.actor.release_waiting(held_job.refresh(), 1100)
    assert held(held_job) == []
    assert not held_job.row.held


def test_a_users_hold_stays(journal: Journal, pending: Make) -> None:
    harness = ActorHarness(journal, pending(reason="JobHeldUser"))
    harness.actor.release_waiting(harness.refresh(), 1100)
    assert held(harness) == ["1"]
