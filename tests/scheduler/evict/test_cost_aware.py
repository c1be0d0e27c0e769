from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.admit.quotas import QuotaUse
from tiresias.scheduler.evict.by_rank import walk
from tiresias.scheduler.evict.cost_aware import Starter, Victim, Weighed, weigh, worthwhile
from tiresias.scheduler.evict.eviction import Walk
from tiresias.scheduler.job_queue import JobQueue
from tiresias.scheduler.selection import settled

STARVES = math.inf


def spare(cost: Any, selected: Any, runs: Any, worth: Any, capacity: Any) -> Any:
    """The selection without the preemptions that are not worth their cost."""
    walked = Walk(np.arange(len(cost)), cost, runs, selected, worth, capacity, True)
    return settled(walked, worthwhile(walked), QuotaUse(()))


@pytest.mark.parametrize(
    ("starters", "victim", "verdict"),
    [
        ([(4, 4)], (4, 1), Weighed(1, [], 0)),
        ([(4, 0)], (4, 1), Weighed(0, [0], 0)),
        ([(4, 4)], (4, 0), Weighed(0, [0], 0)),  # the victim ranks higher
        ([(1, 1), (3, 0)], (4, 2), Weighed(0, [0], 0)),  # fewer GPUs than the victim gives
        ([(4, 4), (2, 0), (2, 2)], (4, 3), Weighed(1, [0], 0)),  # the first keeps what it gets
        ([(2, 2), (2, 2)], (4, 2), Weighed(2, [], 0)),
    ],
)
def test_one_victim(starters: Any, victim: Any, verdict: Any) -> None:
    assert weigh(0, [Starter(*each) for each in starters], [Victim(*victim)]) == verdict


@pytest.mark.parametrize(("ahead", "verdict"), [(1, Weighed(1, [], 3)), (0, Weighed(0, [0], 0))])
def test_a_starving_job_takes_a_lower_ranked_victim_of_any_size(ahead: Any, verdict: Any) -> None:
    assert weigh(3, [Starter(1, STARVES)], [Victim(4, ahead)]) == verdict


def test_a_victim_whose_gpus_are_not_needed_is_spared() -> None:
    assert weigh(4, [Starter(1, 1)], [Victim(4, 1)]) == Weighed(1, [0], 0)


def test_what_a_large_job_leaves_helps_the_next_victim() -> None:
    """The first victim stays, so the 4 GPUs for the last starter are not needed, of which 2 spare the second one too."""
    starters = [Starter(2, 2), Starter(4, 0)]
    assert weigh(0, starters, [Victim(2, 2), Victim(2, 2), Victim(2, 2)]) == Weighed(1, [0, 1], 0)


jobs = st.lists(st.tuples(st.sampled_from([1, 1, 2, 4, 8]), st.booleans(), st.booleans()), max_size=30)


@given(jobs, st.integers(0, 20))
def test_spare(some: Any, free: Any) -> None:
    """Jobs as (GPUs, runs, worth a preemption) in the order of the walk; `free` GPUs are not held by the running jobs."""
    cost, runs, waited_enough = np.array(some, dtype=np.int64).reshape(-1, 3).T
    runs, waited_enough = runs.astype(bool), waited_enough.astype(bool)
    capacity = free + int(cost[runs].sum())
    walked = walk(cost, capacity, False)
    kept = spare(cost, walked, runs, cost * waited_enough, capacity)
    victims, starters = ~kept & runs, kept & ~runs
    assert cost[kept].sum() <= capacity
    assert not (victims & walked).any()  # a job that the walk selects is not preempted
    for place in np.flatnonzero(victims):
        assert (
            cost[starters & waited_enough][: np.searchsorted(np.flatnonzero(starters & waited_enough), place)].sum()
            >= cost[place]
        )
    left = capacity - cost[kept].sum()
    assert (cost[~kept & ~runs] > left).all()  # no waiting job fits


@given(jobs, st.integers(0, 20))
def test_where_each_job_of_one_size_is_worth_it_the_walk_is_unchanged(some: Any, free: Any) -> None:
    runs = np.array([each[1] for each in some], dtype=bool)
    cost, waited_enough = np.ones(len(some), np.int64), np.ones(len(some), bool)
    capacity = free + int(runs.sum())
    walked = walk(cost, capacity, False)
    assert spare(cost, walked, runs, cost * waited_enough, capacity).tolist() == walked.tolist()


@given(jobs, st.integers(0, 20), st.sets(st.integers(0, 29), max_size=3))
def test_the_queue_spares_the_jobs_that_the_walk_spares(some: Any, free: Any, starving: Any) -> None:
    """Two rounds: a job that does not start after all must be in the queue again."""
    cost, runs, waited_enough = np.array(some, dtype=np.int64).reshape(-1, 3).T
    runs, waited_enough = runs.astype(bool), waited_enough.astype(bool)
    starves = np.isin(np.arange(len(some)), list(starving))
    queue = JobQueue(cost.tolist(), blocks=False)
    for row in range(len(some)):
        (queue.compete if runs[row] else queue.wait)(row, (row,))
    for _ in range(2):
        capacity = free + int(cost[runs].sum())
        worth = np.where(starves, math.inf, cost * waited_enough)
        kept = spare(cost, walk(cost, capacity, False), runs, worth, capacity)
        choice = queue.choose(free, worth.tolist().__getitem__)
        assert choice.starts == np.flatnonzero(kept & ~runs).tolist()
        assert choice.victims == np.flatnonzero(~kept & runs).tolist()
        for row in choice.victims:
            queue.leave(row)
            queue.wait(row, (row,))
        for row in choice.starts:
            queue.compete(row, (row,))
        free, runs, waited_enough = capacity - int(cost[kept].sum()), kept, ~waited_enough
