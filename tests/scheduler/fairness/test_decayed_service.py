"""Decayed service: the same work counts the same, into however many runs it is split."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.fairness.decayed_service import decayed_service, last_count

half_lives = st.sampled_from([60.0, 3600.0, 604800.0, math.inf])
seconds = st.floats(0.0, 1e6)


@given(half_lives, st.integers(1, 64), st.lists(seconds, min_size=2, max_size=9).map(sorted), seconds)
def test_a_run_in_parts_counts_as_the_whole(half_life: float, gpus: int, cuts: list[float], later: float) -> None:
    now = cuts[-1] + later
    starts, ends = np.array(cuts[:-1]), np.array(cuts[1:])
    parts = decayed_service(starts, ends, np.full(len(starts), gpus), now, half_life).sum()
    whole = decayed_service(starts[:1], ends[-1:], np.array([gpus]), now, half_life).sum()
    assert parts == pytest.approx(whole, rel=1e-9, abs=1e-6)


def test_a_second_counts_half_after_each_half_life() -> None:
    start, end, gpus = np.array([0.0]), np.array([10.0]), np.array([4])
    early, late = (decayed_service(start, end, gpus, now, 100.0)[0] for now in (10.0, 110.0))
    assert late == pytest.approx(early / 2)
    assert early < 40.0 == decayed_service(start, end, gpus, 1e9, math.inf)[0]


def test_what_lies_ahead_does_not_count() -> None:
    assert decayed_service(np.array([5.0, 20.0]), np.array([15.0, 30.0]), np.array([1, 1]), 10.0, math.inf).tolist() == [
        5.0, 0.0,
    ]  # fmt: skip


@given(st.floats(0.0, 2e9), st.floats(1.0, 1e6))
def test_a_count_is_at_a_multiple_of_the_period(now: float, period: float) -> None:
    found = last_count(now, period)
    assert now - period - 1e-3 <= found <= now
    assert last_count(found + period / 2, period) == pytest.approx(found, abs=1e-3)
