"""The seconds a step of one run, timed from its progress reports, and how much they vary.

The reports are claims, the clock is the reader's. A step that falls begins the measurement anew; steps that are faster than any
program could be (`FASTEST_S`) are no measurement. Pure; O(1) memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

FASTEST_S = 1e-6  # seconds a step
UNKNOWN_SPREAD = 0.3  # relative, of a pace of which one part is timed
MOST_CHANGE = 2.0  # factor by which a drift changes the further steps
_LEAST_SPREAD = 0.02
_LEAST_PARTS = 3  # that show a drift
_WITHIN_90 = 1.645  # standard deviations


class StepPace(NamedTuple):
    """Seconds a step.

    Attributes:
        seconds: In the whole time.
        spread: Standard deviation of its logarithm between parts of the time.
        samples: Samples of a step; nan: not reported.
        drift: Change of its logarithm in a second, as steps become slower or faster; 0: not known.
        timed: Seconds in which that was seen.
    """

    seconds: float
    spread: float
    samples: float
    drift: float = 0.0
    timed: float = 0.0

    @property
    def low(self) -> float:
        """The fastest plausible mean of the further steps."""
        return self.seconds * math.exp(-_WITHIN_90 * self.spread)

    def change(self, left: float) -> float:
        """Return the factor of the mean seconds of the further steps if the drift goes on, at most MOST_CHANGE times more or less.

        Args:
            left: Seconds of the further steps at the present pace.
        """
        if not self.drift:
            return 1.0  # also where the job does not end
        most = math.log(MOST_CHANGE)
        return math.exp(max(-most, min(self.drift * (self.timed + left) / 2.0, most)))

    @property
    def high(self) -> float:
        """The slowest plausible mean of the further steps."""
        return self.seconds * math.exp(_WITHIN_90 * self.spread)


class _Mark(NamedTuple):
    """A report: when it was read, its step and samples (-1: none)."""

    at: float
    step: int
    samples: int


@dataclass(slots=True)
class StepTimes:
    """The timing of one run.

    Attributes:
        timed: Seconds of a part, from which on it counts.
    """

    timed: float
    _first: _Mark | None = None
    _part: _Mark | None = None  # where the present part begins
    _newest: _Mark | None = None
    _parts: int = 0
    _mean: float = 0.0  # of the logarithms of the parts
    _squares: float = 0.0  # sum of the squared deviations from it
    _moment: float = 0.0  # mean of the times of the parts, from the first report on
    _moments: float = 0.0  # sum of their squared deviations
    _together: float = 0.0  # sum of the products of both deviations

    def add(self, at: float, step: int, samples: int) -> None:
        """Take a report with another step or other samples than the one before. at: seconds; samples: -1: none."""
        mark = _Mark(at, step, samples)
        if self._newest is None or step < self._newest.step or at < self._newest.at:
            self._first = self._part = mark
            self._parts, self._mean, self._squares = 0, 0.0, 0.0
            self._moment, self._moments, self._together = 0.0, 0.0, 0.0
        self._newest = mark
        assert self._part
        if seconds := _seconds(self._part, mark, self.timed):
            self._part = mark
            assert self._first
            self._count(math.log(seconds), at - self._first.at)

    def pace(self) -> StepPace | None:
        """Return the seconds a step; None: no time of `timed` seconds with steps in it has passed."""
        if self._first is None or self._newest is None:
            return None
        seconds = _seconds(self._first, self._newest, self.timed)
        if not seconds:
            return None
        samples, timed = _samples(self._first, self._newest), self._newest.at - self._first.at
        return StepPace(seconds, self._spread(), samples, self._drift(), timed)

    def _count(self, value: float, moment: float) -> None:
        self._parts += 1
        change, later = value - self._mean, moment - self._moment
        self._mean += change / self._parts
        self._moment += later / self._parts
        self._squares += change * (value - self._mean)
        self._moments += later * (moment - self._moment)
        self._together += later * (value - self._mean)

    def _drift(self) -> float:
        """Return the slope of the straight line through the parts."""
        return self._together / self._moments if self._parts >= _LEAST_PARTS and self._moments > 0.0 else 0.0

    def _spread(self) -> float:
        if self._parts < 2:
            return UNKNOWN_SPREAD
        return max(math.sqrt(self._squares / (self._parts - 1)), _LEAST_SPREAD)


def _seconds(first: _Mark, last: _Mark, timed: float) -> float:
    """Return the seconds a step between two reports; 0: not known."""
    steps, seconds = last.step - first.step, last.at - first.at
    return seconds / steps if steps > 0 and seconds >= timed and seconds >= FASTEST_S * steps else 0.0


def _samples(first: _Mark, last: _Mark) -> float:
    """Return the samples of a step; nan: not reported, or impossible."""
    samples = last.samples - first.samples
    known = first.samples >= 0 and samples > 0
    return samples / (last.step - first.step) if known else math.nan
