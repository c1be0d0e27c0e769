from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.stragglers import stragglers


def slow(*own: float) -> list[int]:
    return [int(row) for row in np.flatnonzero(stragglers(np.array(own)).slow)]


def test_a_rank_of_half_the_median_speed_is_a_straggler_and_a_slightly_slower_one_is_not() -> None:
    assert slow(0.1, 0.11, 0.2, 0.1) == []
    assert slow(0.1, 0.11, 0.22, 0.1) == [2]
    assert slow(0.1, 0.1, 0.1, 0.1, 0.5, 0.4) == [4, 5]


def test_the_gap_is_what_the_others_wait_in_each_step() -> None:
    found = stragglers(np.array([0.1, 0.1, 0.1, 0.7]))
    assert found.gap == pytest.approx(0.6)
    assert found.ratio.tolist() == pytest.approx([1.0, 1.0, 1.0, 7.0])
    assert stragglers(np.array([0.1, 0.1, 0.15])).gap == 0.0


@pytest.mark.parametrize("own", [(), (0.1,), (0.1, 9.0), (0.1, 9.0, math.nan), (0.1, 9.0, -1.0), (0.1, 9.0, math.inf)])
def test_of_fewer_than_three_known_ranks_none_is_slow(own: tuple[float, ...]) -> None:
    assert slow(*own) == []


@given(st.lists(st.floats(), max_size=30))
def test_less_than_half_of_the_ranks_are_stragglers_whatever_is_reported(own: list[float]) -> None:
    with np.errstate(over="ignore"):
        found = stragglers(np.array(own, np.float64))
    assert found.slow.sum() <= len(own) // 2
    assert found.gap >= 0.0
