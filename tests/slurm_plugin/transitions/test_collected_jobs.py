"""Jobs that saved after their deadline or before their time limit, and the cost of a preemption."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness, Make
from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.state.journal import Journal


def test_a_job_that_parks_after_its_deadline_is_collected(running_job: ActorHarness) -> None:
    running_job.preempt()
    running_job.actor.advance(1100)
    running_job.actor.advance(1121)
    assert running_job.row.unmovable
    running_job.actor.collect(running_job.refresh(), 1122)
    assert running_job.intents() == [], "it has not saved yet"
    running_job.report_parked()
    running_job.actor.collect(running_job.refresh(), 1123)
    running_job.actor.advance(1123)
    assert (running_job.job.restarts, running_job.row.preemptions) == (1, 1)


@pytest.mark.parametrize(("why", "preemptions"), [("limit", 0), ("", 1)])
def test_a_job_that_parked_near_its_time_limit_is_requeued(
    running_job: ActorHarness, why: str, preemptions: int
) -> None:
    """A requeue at its limit of 3600 s is not a preemption: it does not count for caps and cooldowns."""
    running_job.report = JobReport(0, "parked", True, 7, why=why, save=2.5)
    running_job.actor.collect(running_job.refresh(), 2000)
    assert running_job.actor.intents == {}, "far from its limit its report is not read"
    running_job.actor.collect(running_job.refresh(), 4400)
    assert [intent.kind for intent in running_job.actor.intents.values()] == ["renew" if why else "preempt"]
    running_job.poll(4401)
    assert (running_job.job.state, running_job.job.restarts, running_job.job.priority) == ("PENDING", 1, 0), (
        "requeued, and held for its turn"
    )
    assert (running_job.row.preemptions, bool(running_job.row.last_preempted)) == (preemptions, bool(preemptions))
    assert running_job.journal.runs("1@1000")[0].save == 2.5
    assert any("before its time limit" in line for line in running_job.news()) == bool(why)


@pytest.mark.parametrize(
    ("restart", "state", "boot", "again"),
    [
        (0, "parked", 1500, True),
        (0, "running", 1500, False),  # it may really run
        (1, "running", 1490, True),  # a later run, which its node has ended
        (1, "running", 1497, False),
    ],
)
def test_a_job_whose_requeue_a_killed_slurmctld_forgot_is_requeued_again(
    running_job: ActorHarness, restart: int, state: str, boot: int, again: bool
) -> None:
    """Slurm itself finds that out once the node of the first run registers."""
    before = running_job.job
    running_job.slurm.requeue_record("1")
    running_job.refresh()
    running_job.slurm.jobs["1"], running_job.slurm.boot = before, boot
    running_job.report = JobReport(restart, state, True, 7)
    running_job.actor.collect(running_job.refresh(), 1505)
    running_job.poll(1506)
    assert (running_job.job.state, running_job.job.restarts) == (("PENDING", 1) if again else ("RUNNING", 0))
    assert ("signal" in running_job.slurm.calls, running_job.row.preemptions) == (False, 0)
    running_job.actor.collect(running_job.refresh(), 1506)
    assert running_job.actor.intents == {}


@pytest.mark.parametrize(
    ("polls", "waits"),
    [
        ((1499.2, 1499.9, 1500.0, 1500.2), [True, True, True, False]),
        ((1498.9, 1500.2), [True, False]),
        ((1480.0,), [False]),
    ],
)
def test_a_renewed_job_does_not_start_in_the_second_of_its_requeue(
    journal: Journal, running: Make, polls: tuple[float, ...], waits: list[bool]
) -> None:
    """Before 26.05 slurmd refuses such a launch, and the job fails. Slurm requeues it in second 1499, by its own clock."""
    harness = ActorHarness(journal, running(1000, time_limit=600))
    harness.report = JobReport(0, "parked", True, 7, why="limit")
    harness.actor.collect(harness.refresh(), polls[0])
    open_at = []
    for now in polls:
        harness.poll(now)
        open_at.append(bool(harness.intents()))
    assert harness.job.state == "PENDING"
    assert open_at == waits


def test_the_report_of_a_job_without_a_time_limit_is_not_read(journal: Journal, running: Make) -> None:
    harness = ActorHarness(journal, running(1000, time_limit=0))
    harness.report = JobReport(0, "parked", True, 7, why="limit")
    harness.actor.collect(harness.refresh(), 10**7)
    assert harness.actor.intents == {}


def test_the_cost_of_a_preemption_is_journaled(running_job: ActorHarness) -> None:
    running_job.preempt(1099)
    running_job.poll(1100)
    running_job.report = JobReport(0, "parked", True, 7, save=1.25)
    running_job.poll(1102.5)
    (run,) = running_job.journal.runs("1@1000")
    assert (run.save, run.pause) == (1.25, 2.5)
    running_job.restart_controller()
    assert running_job.ledger.usage.costs["1"] != running_job.ledger.usage.costs["1"], "the cost of a start is unknown"
    running_job.ledger.usage.note(running_job.row, 0, restore=30.0, redone=3)
    assert running_job.ledger.usage.costs["1"] == 32.5
    running_job.restart_controller()
    assert running_job.ledger.usage.costs["1"] == 32.5
    (run,) = running_job.journal.runs("1@1000")
    assert (run.restore, run.redone) == (30.0, 3)
