from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.step_times import FASTEST_S, UNKNOWN_SPREAD, StepPace, StepTimes

MOST = 10**15


def timed(*reports: tuple[float, int, int], least: float = 10.0) -> StepPace | None:
    times = StepTimes(least)
    for report in reports:
        times.add(*report)
    return times.pace()


def test_the_pace_is_the_time_between_two_reports_divided_by_the_steps() -> None:
    assert timed((0.0, 0, 0), (20.0, 100, 3200)) == (0.2, UNKNOWN_SPREAD, 32.0, 0.0, 20.0)
    assert timed((0.0, 0, 0), (9.0, 100, 3200)) is None, "too short a time"
    assert timed((5.0, 7, -1)) is None


def test_steady_steps_have_a_narrow_interval_and_others_a_wide_one() -> None:
    steady = timed(*((20.0 * at, 100 * at, -1) for at in range(20)))
    uneven = timed(*((20.0 * at, 100 * at + 60 * (at % 2), -1) for at in range(20)))
    assert steady
    assert uneven
    assert steady.high / steady.low < 1.1
    assert uneven.low < 20.0 / 160
    assert uneven.high > 20.0 / 40


def test_samples_that_are_not_reported_throughout_are_not_known() -> None:
    for reports in (((0.0, 0, -1), (20.0, 10, 640)), ((0.0, 0, 64), (20.0, 10, -1)), ((0.0, 0, 64), (20.0, 10, 5))):
        found = timed(*reports)
        assert found
        assert math.isnan(found.samples)


def test_a_step_that_falls_begins_the_measurement_anew() -> None:
    assert timed((0.0, 0, -1), (100.0, 1000, -1), (101.0, 10, -1)) is None
    again = timed((0.0, 0, -1), (100.0, 1000, -1), (101.0, 10, -1), (121.0, 20, -1))
    assert again
    assert again.seconds == 2.0


@pytest.mark.parametrize("second", [(10.0, 0, -1), (10.0, MOST, -1)])
def test_a_speed_of_zero_or_of_more_than_any_program_is_no_measurement(second: tuple[float, int, int]) -> None:
    assert timed((0.0, 0, -1), second) is None


@given(st.lists(st.tuples(st.floats(0, 1e7), st.integers(0, MOST), st.integers(-1, MOST)), max_size=30))
def test_whatever_is_reported_the_pace_is_a_positive_number(reports: list[tuple[float, int, int]]) -> None:
    """Also when the reader's clock is set back."""
    found = timed(*reports, least=1.0)
    if found:
        assert found.seconds >= FASTEST_S
        assert 0.0 < found.low < found.seconds < found.high < math.inf
        assert math.isnan(found.samples) or found.samples > 0.0
