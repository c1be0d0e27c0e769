"""The predicted end of a job: its interval allows for steps that become slower."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiresias.scheduler.estimates.predicted_end import PredictedEnd
from tiresias.scheduler.estimates.size_estimate import StepsLeft
from tiresias.scheduler.estimates.step_times import MOST_CHANGE, StepPace, StepTimes
from tiresias.scheduler.model import Floats

STEPS = 4000


def end_after(part: float, seconds: Floats, timed: float = 20.0) -> tuple[PredictedEnd, float]:
    """Return the end that is predicted after a part of the steps, and the true one. seconds: of each step."""
    moments, times = np.concatenate(([0.0], np.cumsum(seconds))), StepTimes(timed)
    seen = int(part * len(seconds))
    for step in range(0, seen + 1, 20):
        times.add(float(moments[step]), step, -1)
    pace, left = times.pace(), float(len(seconds) - seen)
    assert pace
    return PredictedEnd.after(float(moments[seen]), StepsLeft(left, left, left), pace), float(moments[-1])


@pytest.mark.parametrize("grows", [0.25, -0.2])
@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_steps_that_change_steadily_end_inside_the_interval(part: float, grows: float) -> None:
    found, true = end_after(part, 0.5 * (1.0 + grows * np.arange(STEPS) / STEPS))
    assert found.low <= true <= found.high
    assert abs(found.at - true) > 0.02 * true * (1.0 - part), "the mean pace so far is another one"


def test_nine_of_ten_steady_jobs_end_inside_the_interval() -> None:
    inside = 0
    for seed in range(100):
        chance = np.random.default_rng(seed)
        found, true = end_after(0.5, 0.5 * np.exp(chance.normal(0.0, 0.3, STEPS)))
        assert found.high - found.low < 0.5 * true
        inside += found.low <= true <= found.high
    assert inside >= 90


def test_a_drift_changes_the_interval_by_a_bounded_factor() -> None:
    left = StepsLeft(1e6, 1e6, 1e6)
    found = PredictedEnd.after(0.0, left, StepPace(1.0, 0.0, math.nan, drift=1.0, timed=100.0))
    assert (found.low, found.at, found.high) == (1e6, 1e6, MOST_CHANGE * 1e6)
    falling = PredictedEnd.after(0.0, left, StepPace(1.0, 0.0, math.nan, drift=-1.0, timed=100.0))
    assert (falling.low, falling.high) == (1e6 / MOST_CHANGE, 1e6)


def test_a_job_that_does_not_end_has_an_interval() -> None:
    never = StepsLeft(math.inf, 10.0, math.inf)
    for drift in (0.0, 1e-3, -1e-3):
        found = PredictedEnd.after(5.0, never, StepPace(1.0, 0.1, math.nan, drift=drift, timed=10.0))
        assert found.at == found.high == math.inf
        assert 5.0 < found.low < 15.0


def test_a_restored_step_forgets_the_drift() -> None:
    times = StepTimes(1.0)
    for step in range(10):
        times.add(float(step * (2 + step)), step, -1)
    before = times.pace()
    times.add(200.0, 1, -1)
    times.add(210.0, 2, -1)
    after = times.pace()
    assert before
    assert after
    assert before.drift > 0.0 == after.drift
