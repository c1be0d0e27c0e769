from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.admit.quotas import QuotaUse
from tiresias.scheduler.evict.by_rank import walk
from tiresias.scheduler.evict.cost_aware import Starter, Victim, Weighed, Weighing, weigh, worthwhile
from tiresias.scheduler.evict.eviction import Walk
from tiresias.scheduler.job_queue import JobQueue
from tiresias.scheduler.selection import settled

STARVES = math.inf


def spare(cost: Any, selected: Any, runs: Any, worth: Any, capacity: Any) -> Any:
    """The selection without the preemptions that are not worth their cost. A victim costs its GPUs, as by default."""
    walked = Walk(np.arange(len(cost)), cost, runs, selected, worth, cost, math.inf, capacity, True)
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
    gpus, ahead = victim
    assert weigh(0, [Starter(*each) for each in starters], [Victim(gpus, ahead, gpus)]) == verdict


@pytest.mark.parametrize(("ahead", "verdict"), [(1, Weighed(1, [], 3)), (0, Weighed(0, [0], 0))])
def test_a_starving_job_takes_a_lower_ranked_victim_of_any_size(ahead: Any, verdict: Any) -> None:
    assert weigh(3, [Starter(1, STARVES)], [Victim(4, ahead, 4)]) == verdict


def test_a_victim_whose_gpus_are_not_needed_is_spared() -> None:
    assert weigh(4, [Starter(1, 1)], [Victim(4, 1, 0)]) == Weighed(1, [0], 0)


@pytest.mark.parametrize(("loss", "spared"), [(5, []), (11, [0])])
def test_gpus_that_are_promised_to_others_are_not_left_for_a_victim(loss: Any, spared: Any) -> None:
    """Of the 4 GPUs that the victim holds 3 are promised. The starter's one and the free one are fewer than it holds."""
    found = weigh(-2, [Starter(1, 10)], [Victim(4, 1, loss)])
    assert (found.starts, found.spared) == (0 if spared else 1, spared)


def test_a_job_whose_gpus_are_promised_to_others_keeps_running_without_starters() -> None:
    assert weigh(-2, [], [Victim(4, 0, 0)]).spared == [0]


def test_what_a_large_job_leaves_helps_the_next_victim() -> None:
    """The first victim stays, so the 4 GPUs for the last starter are not needed, of which 2 spare the second one too."""
    starters = [Starter(2, 2), Starter(4, 0)]
    assert weigh(0, starters, [Victim(2, 2, 2), Victim(2, 2, 2), Victim(2, 2, 2)]) == Weighed(1, [0, 1], 0)


@pytest.mark.parametrize(("worth", "loss", "released"), [(60, 61, False), (60, 60, True), (0, 0, True)])
def test_a_few_gpus_may_displace_many(worth: Any, loss: Any, released: Any) -> None:
    """What counts is what the start is worth, not how many GPUs it needs."""
    assert weigh(63, [Starter(1, worth)], [Victim(64, 1, loss)]).spared == ([] if released else [0])


def test_starts_that_rank_after_the_victim_are_worth_nothing() -> None:
    assert weigh(0, [Starter(4, 100)], [Victim(4, 0, 0)]).spared == [0]


@pytest.mark.parametrize(("release_rate", "spared"), [(math.inf, [0]), (0.1, [0]), (0.05, []), (0.0, [])])
def test_a_start_is_worth_the_wait_for_gpus_that_are_released_otherwise(release_rate: Any, spared: Any) -> None:
    """2 GPUs are released after 20 or 40 s, 4 after 40 or 80 s: 60 or 120 s together."""
    starters = [Starter(2, 1), Starter(2, 1)]
    assert weigh(0, starters, [Victim(4, 2, 100)], release_rate).spared == spared


seconds = st.integers(0, 200)
some_starters = st.lists(st.builds(Starter, st.integers(1, 8), seconds), max_size=8)


@given(
    some_starters,
    st.lists(st.tuples(st.integers(1, 16), st.integers(0, 8), seconds), max_size=5),
    st.sampled_from([math.inf, 0.1]),
)
def test_no_preemption_costs_more_than_the_starts_are_worth(starters: Any, some: Any, release_rate: Any) -> None:
    victims = [Victim(gpus, min(ahead, len(starters)), loss) for gpus, ahead, loss in some]
    free = max(sum(victim.gpus for victim in victims) - sum(starter.gpus for starter in starters), 0)
    if sum(starter.gpus for starter in starters) + free < sum(victim.gpus for victim in victims):
        return
    found = weigh(free, starters, victims, release_rate)
    gains = [
        max(starter.worth, sum(each.gpus for each in starters[: place + 1]) / release_rate)
        for place, starter in enumerate(starters[: found.starts])
    ]
    for place, victim in enumerate(victims):
        assert place in found.spared or victim.loss <= sum(gains[: victim.ahead])


def weighed_one_by_one(free: int, starters: Any, victims: Any, release_rate: float) -> Weighed:
    """The definition of `weigh`: all victims are compared again after each one that is spared."""
    starts, stay = len(starters), list[int]()
    while True:
        for place in (each for each in range(len(victims)) if each not in stay):
            victim = victims[place]
            cut, available, price, released = starts, free, -math.inf, 0
            while cut and available < victim.gpus:
                cut -= 1
                available += starters[cut].gpus
            for starter in starters[cut : min(starts, victim.ahead)]:
                released += starter.gpus
                price = max(price, 0.0) + max(starter.worth, released / release_rate)
            if price < victim.loss:
                break
        else:
            return Weighed(starts, sorted(stay), free)
        stay.append(place)
        starts, free = cut, available - victim.gpus


@given(
    some_starters,
    st.lists(
        st.tuples(st.sampled_from([1, 1, 2, 4, 8]), st.integers(0, 8), st.sampled_from([60, 90, 300])), max_size=9
    ),
    st.integers(-9, 9),
    st.sampled_from([math.inf, 0.1]),
)
def test_victims_of_one_kind_are_weighed_as_each_of_them(
    starters: Any, some: Any, spare: Any, release_rate: Any
) -> None:
    ahead = sorted(min(each[1], len(starters)) for each in some)
    victims = [Victim(gpus, before, loss) for (gpus, _, loss), before in zip(some, ahead, strict=True)]
    free = max(sum(victim.gpus for victim in victims) - sum(starter.gpus for starter in starters), 0) + spare
    assert weigh(free, starters, victims, release_rate) == weighed_one_by_one(free, starters, victims, release_rate)


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
        weighing = Weighing(worth.tolist().__getitem__, cost.tolist().__getitem__)
        choice = queue.choose(free, partial(Weighing, *weighing))
        assert list(choice.starts) == np.flatnonzero(kept & ~runs).tolist()
        assert list(choice.victims) == np.flatnonzero(~kept & runs).tolist()
        for row in choice.victims:
            queue.leave(row)
            queue.wait(row, (row,))
        for row in choice.starts:
            queue.compete(row, (row,))
        free, runs, waited_enough = capacity - int(cost[kept].sum()), kept, ~waited_enough
