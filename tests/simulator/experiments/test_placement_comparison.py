"""Gains of a trained placement are paired by seed, and weights are recommended only where the whole intervals are above 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.simulator.experiments.confidence import STUDENT_95, mean_interval
from tiresias.simulator.experiments.placement_comparison import LEARNED, PlacementComparison


def test_the_percentiles_are_those_of_students_t() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    for count, value in STUDENT_95.items():
        assert value == pytest.approx(stats.t.ppf(0.975, count - 1), rel=3e-3)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40))
def test_an_interval_is_that_of_a_naive_loop(values: list[float]) -> None:
    mean = sum(values) / len(values)
    error = (sum((each - mean) ** 2 for each in values) / (len(values) - 1) / len(values)) ** 0.5
    found = mean_interval(np.array(values))
    assert found.mean == pytest.approx(mean, abs=1e-9)
    assert found.high - found.mean == pytest.approx(found.mean - found.low, abs=1e-9)
    assert 1.96 * error - 1e-9 <= found.high - found.mean <= 12.8 * error + 1e-9


def test_the_interval_of_one_value_is_infinite() -> None:
    assert mean_interval(np.array([3.0])) == (3.0, -np.inf, np.inf)


def test_what_makes_a_workload_hard_cancels_within_its_pair() -> None:
    hard = np.array([100.0, 1000.0, 5000.0, 20000.0])
    jct = {LEARNED: hard * [0.9, 0.91, 0.89, 0.9], "tetris": hard, "skew": hard * [0.8, 1.0, 0.95, 0.9]}
    found = PlacementComparison((1, 2, 3, 4), jct)
    assert found.gains["tetris"].mean == pytest.approx(0.1)
    assert 0.08 < found.gains["tetris"].low < 0.1 < found.gains["tetris"].high < 0.12
    assert found.not_beaten == ("skew",)


def test_equal_placements_are_not_beaten() -> None:
    jct = np.array([10.0, 20.0])
    assert PlacementComparison((1, 2), {LEARNED: jct, "tetris": jct}).not_beaten == ("tetris",)
