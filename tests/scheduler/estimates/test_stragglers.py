from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.stragglers import SLOWER, slow_servers, stragglers


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


# The median lies between the fastest rank and the slowest one: none is slow where these two differ by less than SLOWER.
@given(
    st.floats(1e-6, 1e5),
    st.lists(st.floats(1.0, SLOWER, exclude_max=True), max_size=64),
    st.lists(st.sampled_from([math.nan, math.inf, 0.0, -1.0]), max_size=5),
)
def test_equal_ranks_are_no_stragglers_whatever_their_jitter_below_the_factor(
    work: float, jitter: list[float], unknown: list[float]
) -> None:
    own = np.array([work * each for each in jitter] + unknown, np.float64)
    known = own[: len(jitter)]
    if len(known) and known.max() / known.min() >= SLOWER:  # by rounding
        return
    found = stragglers(own)
    assert not found.slow.any()
    assert found.gap == 0.0


@given(st.integers(3, 40), st.integers(0, 2**32 - 1), st.floats(0.0, 0.33), st.floats(1e-4, 1e3))
def test_equal_ranks_with_noise_of_a_third_are_no_stragglers(ranks: int, seed: int, noise: float, work: float) -> None:
    """Two ranks differ by less than (1 + 0.33) / (1 - 0.33) = 1.99 times then."""
    own = work * np.random.default_rng(seed).uniform(1.0 - noise, 1.0 + noise, ranks)
    assert not stragglers(own).slow.any()
    assert not slow_servers(own, 1.5 * own).slow.any()


def test_a_slow_server_counts_where_the_workers_wait_for_it() -> None:
    own = np.array([0.1, 0.1, 0.1, 0.5])
    found = slow_servers(own, np.full(4, 2.0))
    assert np.flatnonzero(found.slow).tolist() == [3]
    assert found.speedup[3] == pytest.approx(2.0 / 1.6)
    assert found.by_node(["a", "a", "b", "b"]) == {"b": pytest.approx((5.0, 1.25))}
    assert not slow_servers(own, np.full(4, 10.0)).slow.any(), "0.4 s of 10 s"
    assert not slow_servers(own, np.full(4, math.nan)).slow.any()


@given(st.lists(st.tuples(st.floats(1e-9, 1e6), st.floats(1e-9, 1e6)), max_size=30))
def test_slow_servers_are_stragglers_whose_step_would_be_shorter(reports: list[tuple[float, float]]) -> None:
    own, whole = np.array(reports, np.float64).reshape(-1, 2).T
    found = slow_servers(own, whole)
    assert not (found.slow & ~stragglers(own).slow).any()
    assert (found.speedup[found.slow] > 1.0).all()
    assert np.isfinite(found.speedup[found.slow]).all()
