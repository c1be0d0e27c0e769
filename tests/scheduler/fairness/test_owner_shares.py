"""What owners used by their shares, and what that guarantees in a fluid cluster."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.fairness.owner_shares import LEVEL_FACTOR, LEVEL_LIMITS, excesses, level_of, shares_of, uses

owners = st.lists(st.tuples(st.just(0.0) | st.floats(1e-3, 1e9), st.floats(0.01, 1e3)), min_size=1, max_size=20)


@given(owners, st.floats(0.1, 10.0), st.floats(0.1, 10.0))
def test_neither_the_unit_of_service_nor_that_of_shares_matters(
    rows: list[tuple[float, float]], service: float, share: float
) -> None:
    served, shares = np.array(rows).T
    assert uses(served * service, shares * share) == pytest.approx(uses(served, shares), rel=1e-6)


@given(owners, st.integers(0, 5))
def test_owners_without_service_change_nothing(rows: list[tuple[float, float]], idle: int) -> None:
    served, shares = np.array(rows).T
    more = uses(np.append(served, [0.0] * idle), np.append(shares, [5.0] * idle))
    assert more.tolist() == pytest.approx([*uses(served, shares).tolist(), *[0.0] * idle])


@given(owners)
def test_the_weighted_mean_of_active_owners_is_one(rows: list[tuple[float, float]]) -> None:
    served, shares = np.array(rows).T
    active = served > 0.0
    if active.any():
        assert np.average(uses(served, shares)[active], weights=shares[active]) == pytest.approx(1.0)


def test_use_is_what_was_served_over_the_share() -> None:
    assert used({"a": 300.0, "b": 100.0, "new": 0.0}, {"a": 1.0, "b": 1.0, "idle": 7.0}) == [1.5, 0.5, 0.0]
    assert used({"a": 300.0, "b": 100.0}, {"a": 3.0, "b": 1.0}) == [1.0, 1.0]
    assert used({"a": 100.0, "b": 100.0}, {"a": 2.0, "b": 0.0})[1] == math.inf
    assert used({}, {"a": 1.0}) == []


def used(served: dict[str, float], shares: dict[str, float]) -> list[float]:
    return [*map(float, uses(np.array([*served.values()]), shares_of([*served], shares)))]


def test_an_owner_that_is_missing_has_the_smallest_share() -> None:
    assert shares_of(["a", "new"], {"a": 3.0, "b": 2.0, "c": 0.0}).tolist() == [3.0, 2.0]
    assert shares_of(["a", "b"], {}).tolist() == [1.0, 1.0]


@given(owners, st.data())
def test_excess_counts_from_the_waiting_owner_that_used_the_least(rows: list[tuple[float, float]], data: Any) -> None:
    served, shares = np.array(rows).T
    waits = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    excess, by_share = excesses(served, shares, waits), served / shares
    assert (excess >= 0.0).all()
    if waits.any():
        assert excess[waits].min() == 0.0
    order = np.argsort(by_share, kind="stable")
    assert (np.diff(excess[order]) >= -1e-6 * excess.max(initial=1.0)).all()


def test_excess_is_in_gpu_seconds_of_an_owner_with_the_mean_share() -> None:
    served, shares = np.array([700.0, 300.0, 0.0]), np.array([3.0, 1.0, 5.0])
    by_share = [700.0 * 2 / 3, 300.0 * 2, 0.0]  # the mean share of owners with service is 2
    assert excesses(served, shares, np.array([True, True, False])).tolist() == pytest.approx([0.0, 600 - 1400 / 3, 0.0])
    assert excesses(served, shares, np.array([False, False, True])).tolist() == pytest.approx(by_share)
    assert excesses(served, shares, np.array([False, False, False])).tolist() == pytest.approx(by_share)
    assert excesses(np.array([5.0, 5.0]), np.array([0.0, 1.0]), np.array([True, True])).tolist() == [math.inf, 0.0]


def test_levels_are_factors_of_four() -> None:
    assert [level_of(tag) for tag in (0.0, 59.9, 60.0, 239.0, 240.0)] == [0, 0, 1, 1, 2]
    assert level_of(0.0) == 0 < level_of(math.inf) == len(LEVEL_LIMITS)
    assert level_of(np.array([0.0, 100.0])).tolist() == [0, 1]


class Division(NamedTuple):
    """A backlogged owner of a fluid cluster: the costs of its jobs, one after the other and again."""

    costs: list[float]
    share: float


divisions = st.builds(Division, st.lists(st.floats(1.0, 5e3), min_size=1, max_size=4), st.sampled_from([1.0, 2.0, 5.0]))
GPUS, PERIOD_S = 8.0, 60.0


def serve(owners: list[Division], periods: int) -> np.ndarray[Any, Any]:
    """Return the GPU-seconds of owners that always wait. In each period all GPUs serve jobs in the order of their levels, the
    first owner last of each level; a job is not shown to cost less than it did when it began."""
    shares = np.array([one.share for one in owners])
    served, waits = np.zeros(len(owners)), np.ones(len(owners), np.bool_)
    left, job = [one.costs[0] for one in owners], [0] * len(owners)
    for _ in range(periods):
        excess, capacity = excesses(served, shares, waits), GPUS * PERIOD_S
        while capacity > 1e-9:
            tags = [excess[at] + one.costs[job[at] % len(one.costs)] for at, one in enumerate(owners)]
            at = min(range(len(owners)), key=lambda each: (level_of(tags[each]), -each))
            spent = min(capacity, left[at])
            served[at], left[at], capacity = served[at] + spent, left[at] - spent, capacity - spent
            if left[at] <= 0.0:
                job[at] += 1
                left[at] = owners[at].costs[job[at] % len(owners[at].costs)]
    return served


def bound(owners: list[Division]) -> float:
    """GPU-seconds by share by which two owners that always wait may differ: a level, the largest cost, and a period."""
    least, mean = min(one.share for one in owners), float(np.mean([one.share for one in owners]))
    largest = max(max(one.costs) for one in owners)
    return LEVEL_FACTOR * max(largest, 60.0) + (GPUS * PERIOD_S + largest) * mean / least


@given(st.lists(divisions, min_size=2, max_size=5), st.integers(1, 120))
def test_an_owner_that_always_waits_gets_its_share_but_for_a_bound(owners: list[Division], periods: int) -> None:
    shares = np.array([one.share for one in owners])
    served = serve(owners, periods)
    by_share = served * shares.mean() / shares
    assert by_share.max() - by_share.min() <= bound(owners)
    fair = GPUS * PERIOD_S * periods * shares / shares.sum()
    assert (served >= fair - bound(owners) * shares / shares.mean()).all()


@given(st.lists(divisions, min_size=2, max_size=4), st.integers(2, 50), st.integers(1, 120))
def test_an_owner_gains_no_more_than_the_bound_by_splitting_its_jobs(
    owners: list[Division], parts: int, periods: int
) -> None:
    split = Division([cost / parts for cost in owners[0].costs for _ in range(parts)], owners[0].share)
    gained = serve([split, *owners[1:]], periods)[0] - serve(owners, periods)[0]
    assert gained <= 2.0 * bound(owners) * owners[0].share / float(np.mean([one.share for one in owners]))
