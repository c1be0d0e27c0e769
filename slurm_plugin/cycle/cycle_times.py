"""How long cycles and snapshots take."""

from __future__ import annotations

import statistics
from collections import deque

RECENT_CYCLES = 1000  # of which the median and the 99th percentile are shown


class CycleTimes:
    """Attributes:
    started: epoch second at which the controller started.
    count: finished cycles.
    seconds: of the newest cycle.
    latency: seconds that Slurm took for the newest snapshot.
    """

    def __init__(self, started: float) -> None:
        self.started, self.count, self.seconds, self.latency = started, 0, 0.0, 0.0
        self._recent: deque[float] = deque(maxlen=RECENT_CYCLES)

    def add(self, seconds: float) -> None:
        """Count a cycle."""
        self.count, self.seconds = self.count + 1, seconds
        self._recent.append(seconds)

    def add_snapshot(self, seconds: float) -> None:
        """Note how long Slurm took for a snapshot."""
        self.latency = seconds

    @property
    def words(self) -> str:
        """The newest cycle, for a line of text."""
        return f"cycle {self.count} took {self.seconds:.2f} s"

    def published(self, period: float) -> dict[str, float]:
        """For viewers. period: of the configuration, seconds."""
        return {
            "count": self.count,
            "seconds": round(self.seconds, 4),
            "period": period,
            "median": round(statistics.median(self._recent), 4),
            "p99": round(self._p99(), 4),
            "snapshot": round(self.latency, 4),
        }

    def _p99(self) -> float:
        return sorted(self._recent)[len(self._recent) * 99 // 100]
