"""When a job is expected to end: the steps that it has left, times the seconds a step. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from tiresias.scheduler.estimates.size_estimate import StepsLeft
from tiresias.scheduler.estimates.step_times import StepPace


class PredictedEnd(NamedTuple):
    """When a running job is expected to end, with the interval of 90%; inf: it is not expected to."""

    at: float
    low: float
    high: float

    @classmethod
    def after(cls, now: float, left: StepsLeft, pace: StepPace) -> PredictedEnd:
        """Return the end of a job that has so many steps left, at its present pace. now: epoch seconds.

        The interval allows for steps that go on to become slower, or faster, as they did.
        """
        middle = left.steps * pace.seconds
        change = pace.change(middle)
        low = min(left.low * pace.low * min(change, 1.0), middle)
        high = max(left.high * pace.high * max(change, 1.0), middle)
        return cls(now + middle, now + low, now + high)


NO_END = PredictedEnd(math.inf, math.inf, math.inf)  # not known
