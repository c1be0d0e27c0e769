from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from tiresias.simulator.outcome import Timeline
from tiresias.simulator.outcome_metrics import cumulative, over_time, ratios


def timeline(times: ArrayLike, used: ArrayLike) -> Timeline:
    moments = np.array(times, float)
    nothing = np.zeros(len(moments), np.int64)
    return Timeline(moments, np.array(used, np.int64), nothing, nothing)


def test_over_time_by_hand() -> None:
    """4 GPUs from 10 to 12 s, 2 until 20 s, then none."""
    steps = timeline([10, 12, 20], [4, 2, 0])
    edges = np.array([0.0, 10.0, 11.0, 14.0, 30.0])
    assert over_time(steps, steps.used, edges).tolist() == [0.0, 4.0, (4 + 2 + 2) / 3, 2 * 6 / 16]


def test_the_last_value_lasts() -> None:
    steps = timeline([0], [3])
    assert over_time(steps, steps.used, np.array([0.0, 1.0, 5.0])).tolist() == [3.0, 3.0]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9)), min_size=1, max_size=20),
    st.lists(st.integers(0, 400), min_size=2, max_size=10, unique=True),
)
def test_over_time_agrees_with_counting_seconds(steps: list[tuple[int, int]], limits: list[int]) -> None:
    times = np.cumsum([length for length, _ in steps])
    values = [value for _, value in steps]
    edges = np.array(sorted(limits), float)
    second = np.arange(1001)
    at = np.searchsorted(times, second, side="right") - 1
    each = np.where(at < 0, 0, np.array(values)[at])
    expected = [each[int(low) : int(high)].mean() for low, high in pairwise(edges)]
    one = timeline(times, values)
    assert over_time(one, one.used, edges) == pytest.approx(expected)


def test_cumulative_is_the_distribution_function() -> None:
    values, share = cumulative(np.array([5.0, 1.0, 3.0, 3.0]), 10)
    assert values.tolist() == [1.0, 3.0, 3.0, 5.0]
    assert share.tolist() == [0.25, 0.5, 0.75, 1.0]


@given(st.integers(1, 500), st.integers(2, 50))
def test_cumulative_thinned_out_keeps_both_ends_and_the_truth(count: int, most: int) -> None:
    values, share = cumulative(np.arange(count, dtype=float)[::-1], most)
    assert len(values) <= most
    assert values[-1] == count - 1
    assert share == pytest.approx((values + 1) / count)


def test_ratios_to_the_first_leave_out_what_is_zero() -> None:
    numbers = dict.fromkeys(("mean_jct", "median_jct", "p95_jct", "p99_jct", "max_jct", "makespan"), 2.0)
    two = {key: 3 * value for key, value in numbers.items()}
    found = ratios({"las": {**numbers, "mean_queueing": 0.0}, "fifo": {**two, "mean_queueing": 1.0}})
    assert found == {"fifo": dict.fromkeys(numbers, 3.0)}
