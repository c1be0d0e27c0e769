"""An actor whose job 1 runs, and one whose job 1 is held."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import ActorHarness, Make
from tiresias.slurm_plugin.state.journal import Journal


@pytest.fixture
def running_job(journal: Journal, running: Make, pending: Make) -> ActorHarness:
    """Job 1 runs since 1000 and may be preempted; job 2 waits for its GPUs."""
    harness = ActorHarness(journal, running(1000))
    harness.slurm.jobs["2"] = pending(id="2", raw_id=2, priority=1, reason="None")
    harness.refresh()
    return harness


@pytest.fixture
def held_job(journal: Journal, pending: Make) -> ActorHarness:
    """Job 1 is pending and held by the controller."""
    harness = ActorHarness(journal, pending(priority=1, reason="None"))
    harness.actor.hold(harness.refresh(), 1001)
    assert harness.row.held
    return harness
