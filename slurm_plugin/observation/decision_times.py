"""At which snapshots running jobs may be preempted or change their size (`policy.interval`)."""

from __future__ import annotations

import math
from collections.abc import Iterable


class DecisionTimes:
    """The newest decision of each interval.

    A decision is due at the first snapshot of all, and at the first one after each multiple of the interval.

    Args:
        intervals: Seconds; 0: a decision is made from each snapshot.
    """

    def __init__(self, intervals: Iterable[float]) -> None:
        self._decided = dict.fromkeys(filter(None, intervals), -math.inf)  # epoch seconds by interval
        self._due: set[float] = set()
        self._now = math.nan

    def begin(self, now: float) -> None:
        """Begin a snapshot, which may be observed several times. now: its epoch seconds."""
        if now == self._now:
            return
        self._now = now
        self._due = {each for each, before in self._decided.items() if now < before or _next(each, before) <= now}
        self._decided |= dict.fromkeys(self._due, now)

    def wait(self, interval: float) -> float:
        """Return the seconds from the snapshot until the next decision; 0: it is made from this snapshot."""
        return 0.0 if not interval or interval in self._due else _next(interval, self._now) - self._now

    def next_due(self) -> float:
        """Return the next moment after the snapshot at which a decision is due, in epoch seconds; inf for never."""
        return min((_next(interval, self._now) for interval in self._decided), default=math.inf)


def _next(interval: float, after: float) -> float:
    """Return the next multiple of an interval."""
    return (math.floor(after / interval) + 1) * interval if math.isfinite(after) else after
