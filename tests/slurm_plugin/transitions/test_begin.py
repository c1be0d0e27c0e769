"""Operations before a transition: the hold under a pin, and the release of jobs that are no longer managed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state.journal import Journal

Make = Callable[..., SlurmJob]


@pytest.mark.parametrize(("priority", "holds"), [(0, 0), (1, 1), (100, 1)])
def test_a_job_is_held_before_it_is_pinned(journal: Journal, pending: Make, priority: int, holds: int) -> None:
    """slurmctld could start an eligible job between the two calls of a pin. A held job is not held again."""
    harness = ActorHarness(journal, pending(priority=1, reason="None"))
    if not priority:
        harness.actor.hold(harness.refresh(), 1001.0)
    harness.slurm.change(priority=priority)
    harness.refresh()
    harness.slurm.calls.clear()
    harness.start()
    harness.actor.advance(1100.0)
    changing = [call for call in harness.slurm.calls if call in ("hold", "pin", "lift")]
    assert changing == ["hold"] * holds + ["pin", "lift"]
    assert harness.job.state == "RUNNING"


def test_a_job_that_slurm_has_started_since_the_snapshot_is_not_started_again(held_job: ActorHarness) -> None:
    """The snapshot has a reason for which it does not start, so that it is held again, and meanwhile Slurm has started it."""
    held_job.wait_in_vain("PartitionTimeLimit")
    held_job.slurm.change(state="RUNNING", reason="None", start_time=1101)
    held_job.actor.confirm(1102.0)
    assert (held_job.intents(), held_job.news()[-1].split(":")[0]) == ([], "running")
    held_job.start(1102.0)
    assert held_job.intents() == [], "the plan was made from the snapshot"
    held_job.slurm.requeue_record("1")
    held_job.actor.hold(held_job.refresh(), 1500.0)
    held_job.start(1501.0)
    assert [intent.kind for intent in held_job.intents()] == ["start"]


def test_a_job_that_moved_to_an_unmanaged_partition_is_released_and_forgotten(journal: Journal, pending: Make) -> None:
    harness = ActorHarness(journal, pending(priority=1, reason="None"))
    harness.actor.hold(harness.refresh(), 1001.0)
    assert harness.job.priority == 0
    harness.slurm.change(partition="other")
    harness.refresh()
    harness.actor.release_unmanaged(1002.0)
    assert harness.job.priority == 1
    assert "1" not in harness.ledger.jobs
