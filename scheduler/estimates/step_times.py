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
_LEAST_SPREAD = 0.02
_WITHIN_90 = 1.645  # standard deviations


class StepPace(NamedTuple):
    """Seconds a step.

    Attributes:
        seconds: In the whole time.
        spread: Standard deviation of its logarithm between parts of the time.
        samples: Samples of a step; nan: not reported.
    """

    seconds: float
    spread: float
    samples: float

    @property
    def low(self) -> float:
        """The fastest plausible mean of the further steps."""
        return self.seconds * math.exp(-_WITHIN_90 * self.spread)

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

    def add(self, at: float, step: int, samples: int) -> None:
        """Take a report with another step or other samples than the one before. at: seconds; samples: -1: none."""
        mark = _Mark(at, step, samples)
        if self._newest is None or step < self._newest.step or at < self._newest.at:
            self._first = self._part = mark
            self._parts, self._mean, self._squares = 0, 0.0, 0.0
        self._newest = mark
        assert self._part
        if seconds := _seconds(self._part, mark, self.timed):
            self._part = mark
            self._count(math.log(seconds))

    def pace(self) -> StepPace | None:
        """Return the seconds a step; None: no time of `timed` seconds with steps in it has passed."""
        if self._first is None or self._newest is None:
            return None
        seconds = _seconds(self._first, self._newest, self.timed)
        if not seconds:
            return None
        return StepPace(seconds, self._spread(), _samples(self._first, self._newest))

    def _count(self, value: float) -> None:
        self._parts += 1
        change = value - self._mean
        self._mean += change / self._parts
        self._squares += change * (value - self._mean)

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
