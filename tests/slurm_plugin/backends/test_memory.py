"""What Slurm forgets of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob
from tiresias.slurm_plugin.backends.memory import Memory, mid_second

Make = Callable[..., SlurmJob]
LEAVING: dict[str, Any] = {"state": "PENDING", "completing": True, "restarts": 1, "priority": 0}


def test_a_completing_job_still_holds_its_gpus_on_the_nodes_left(pending: Make, running: Make) -> None:
    memory = Memory()
    both = (NodeShare("gpu01", 4, 4, 400), NodeShare("gpu02", 1, 1, 100))
    memory.fill(running(1000, shares=both), 1010.0)
    left = memory.fill(pending(**LEAVING, shares=(NodeShare("gpu02", 3, 1, 100),)), 1020.0)
    assert left.shares == (both[1],)


def test_without_memory_the_estimate_stays(pending: Make) -> None:
    shares = (NodeShare("gpu02", 3, 1, 100),)
    assert Memory().fill(pending(**LEAVING, shares=shares), 1020.0).shares == shares


def test_the_end_of_a_requeued_run_is_known_until_the_next(pending: Make, running: Make) -> None:
    memory = Memory()
    memory.fill(running(1000), 1010.0)
    memory.requeuing("1", 1019)
    assert memory.fill(pending(**LEAVING), 1020.0).end_time == 1019
    assert memory.fill(pending(restarts=1), 1050.0).end_time == 1019
    memory.fill(running(1100, restarts=1), 1110.0)
    assert memory.fill(pending(restarts=2), 1150.0).end_time == 0


def test_asking_twice_does_not_move_the_end(pending: Make) -> None:
    memory = Memory()
    memory.requeuing("1", 1019)
    memory.requeuing("1", 1025)
    assert memory.fill(pending(**LEAVING), 1030.0).end_time == 1019


def test_a_refused_requeue_ends_nothing(pending: Make) -> None:
    memory = Memory()
    memory.requeuing("1", 1019)
    memory.refused("1")
    assert memory.fill(pending(restarts=1), 1030.0).end_time == 0


def test_a_requeue_by_others_ends_when_it_is_seen(pending: Make) -> None:
    memory = Memory()
    assert memory.fill(pending(**LEAVING), 1020.7).end_time == 1020
    assert memory.fill(pending(**LEAVING), 1025.0).end_time == 1020


def test_jobs_that_are_gone_are_forgotten(pending: Make) -> None:
    memory = Memory()
    memory.fill(pending(**LEAVING), 1020.0)
    memory.fill_each([pending(id="2")], 1025.0)
    assert memory.fill(pending(restarts=1), 1030.0).end_time == 0


def test_each_of_many_jobs_is_filled_as_by_itself(pending: Make, running: Make) -> None:
    """A job runs, is requeued, leaves its nodes and runs again, beside one that only runs. A first requeue is noted, but fails."""
    beside = running(990, id="2", shares=(NodeShare("gpu02", 2, 1, 100),))
    holds = (NodeShare("gpu01", 4, 4, 400),)
    first, leaving = running(1000, shares=holds), pending(**LEAVING, shares=(NodeShare("gpu01", 1, 1, 100),))
    again = running(1100, restarts=1, shares=holds)
    steps = [(first, None), (first, 1019), (leaving, None), (leaving, None), (pending(restarts=1), None), (again, None)]
    together, alone = Memory(), Memory()
    for at, (job, requeued) in enumerate([*steps, (pending(restarts=2), None)]):
        if requeued is not None:
            together.requeuing("1", requeued)
            alone.requeuing("1", requeued)
        now = 1010.0 + 10 * at
        assert together.fill_each([beside, job], now) == [alone.fill(beside, now), alone.fill(job, now)]


def test_mid_second_is_away_from_the_edges() -> None:
    for _ in range(3):
        second, now = mid_second(), time.time()
        assert second == int(now)
        assert 0.0 < now % 1 < 0.99
