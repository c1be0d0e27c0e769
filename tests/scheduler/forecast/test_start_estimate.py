"""The estimate of starts from time limits: no job before those ahead of it, never more GPUs than there are."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.forecast.start_estimate import LATEST_S, Holder, Waiter, estimated_starts

LIMITS = st.sampled_from([0.0, 60.0, 600.0, 3600.0, 7200.0])
HOLDERS = st.lists(st.tuples(st.integers(1, 8), LIMITS | st.just(math.inf)).map(lambda run: Holder(*run)), max_size=8)
SIZES = st.lists(st.tuples(st.integers(1, 16), LIMITS | st.just(math.inf)), max_size=12)


def queue(sizes: list[tuple[int, float]]) -> list[Waiter]:
    return [Waiter(gpus, 100 + rank, limit) for rank, (gpus, limit) in enumerate(sizes)]


@given(st.integers(0, 8), HOLDERS, SIZES)
def test_no_job_starts_before_one_ahead_of_it(free: int, holders: list[Holder], sizes: list[tuple[int, float]]) -> None:
    starts = estimated_starts(free, holders, queue(sizes))
    assert starts == sorted(starts)
    assert all(0 <= start <= LATEST_S or start == math.inf for start in starts)


@given(st.integers(0, 8), HOLDERS, SIZES)
def test_there_are_never_more_gpus_in_use_than_there_are(
    free: int, holders: list[Holder], sizes: list[tuple[int, float]]
) -> None:
    waiting, total = queue(sizes), free + sum(one.gpus for one in holders)
    starts = estimated_starts(free, holders, waiting)
    ran = [(start, start + job.limit, job.gpus) for start, job in zip(starts, waiting, strict=True) if start < math.inf]
    spans = ran + [(0.0, one.ends, one.gpus) for one in holders]
    for moment in {begin for begin, _, _ in ran}:
        assert sum(gpus for begin, end, gpus in spans if begin <= moment < end) <= total


@given(st.integers(0, 8), HOLDERS, SIZES, st.integers(0, 7), st.floats(1.0, 5000.0))
def test_a_run_that_ends_later_makes_no_start_earlier(
    free: int, holders: list[Holder], sizes: list[tuple[int, float]], which: int, longer: float
) -> None:
    later = [one._replace(ends=one.ends + longer) if at == which else one for at, one in enumerate(holders)]
    before, after = (estimated_starts(free, one, queue(sizes)) for one in (holders, later))
    assert all(first <= then for first, then in zip(before, after, strict=True))


def test_from_the_time_limits_of_those_ahead() -> None:
    holders = [Holder(4, 600.0, 0), Holder(4, 1500.0, 1)]
    waiting = [Waiter(4, 2, 3600.0), Waiter(4, 3, 60.0), Waiter(8, 4, 60.0), Waiter(9, 5, 60.0)]
    assert estimated_starts(0, holders, waiting) == [600.0, 1500.0, 4200.0, math.inf]


def test_lower_ranked_runs_are_preempted_the_lowest_first() -> None:
    holders = [Holder(4, 9000.0, 1, 0.0), Holder(2, 9000.0, 7, 30.0), Holder(2, 9000.0, 6, 10.0), Holder(8, math.inf)]
    assert estimated_starts(0, holders, [Waiter(2, 5, 60.0)]) == [30.0]
    assert estimated_starts(0, holders, [Waiter(4, 5, 60.0)]) == [30.0]
    assert estimated_starts(0, holders, [Waiter(5, 5, 60.0)]) == [9000.0], "the one ahead of it is not preempted"


def test_nothing_is_known_where_runs_have_no_limit() -> None:
    assert estimated_starts(0, [Holder(8, math.inf)], [Waiter(1, 0, 60.0)]) == [math.inf]
    assert estimated_starts(1, [Holder(8, math.inf)], [Waiter(1, 0, math.inf), Waiter(1, 1, 1.0)]) == [0.0, math.inf]
