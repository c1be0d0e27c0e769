"""How soon the next cycle may and must come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.calls.pace import LONGEST, SHARE, Pace

LATENCIES = st.lists(st.floats(0.0, 60.0), min_size=1)


def test_a_quick_slurmctld_changes_nothing() -> None:
    pace = Pace(30.0, 0.1)
    pace.answered(0.5)
    assert pace.period == 30.0
    assert pace.rest == 0.0


def test_a_slow_one_is_asked_less_often_and_left_alone_for_longer() -> None:
    pace = Pace(30.0, 0.1)
    pace.answered(2.0)
    assert pace.period == SHARE * 2.0
    assert pace.rest == 4.0


@given(LATENCIES)
def test_both_are_bounded(latencies: list[float]) -> None:
    pace = Pace(30.0, 0.1)
    for each in latencies:
        pace.answered(each)
        assert 30.0 <= pace.period <= LONGEST * 30.0
        assert 0.0 <= pace.rest <= 30.0
        assert pace.latency >= each


@given(st.floats(1.0, 60.0))
def test_a_slurmctld_that_gets_quick_again_is_forgiven_within_a_dozen_cycles(slow: float) -> None:
    pace = Pace(30.0, 0.1)
    pace.answered(slow)
    for _ in range(12):
        pace.answered(0.1)
    assert pace.rest == 0.0


@given(st.integers(1, 50), st.floats(0.0, 1.0))
def test_the_back_off_doubles_up_to_the_period_and_is_never_the_same(failures: int, jitter: float) -> None:
    pace = Pace(30.0, 0.1, lambda: jitter)
    for _ in range(failures):
        pace.failed()
    longest = min(0.1 * 2**failures, 30.0)
    assert pace.back_off() == pytest.approx(longest * (1 + jitter) / 2)
    pace.answered(0.1)
    assert pace.failures == 0
