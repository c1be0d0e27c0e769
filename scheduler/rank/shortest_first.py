"""Smallest, shortest and least remaining service first (section 3.2.1): the baselines that sort by one size of a job.

The last two need the remaining run time, which is available in the simulator only.
"""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows


class SmallestFirst(IncrementalPolicy):
    """Fewest GPUs first; run times are not considered."""

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: the fewest GPUs first."""
        return 0, jobs.gpus


class ShortestRemainingTime(IncrementalPolicy):
    """Shortest remaining run time first."""

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: the shortest remaining run time first."""
        return 0, jobs.remaining

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        """Return True: the remaining time shrinks while a job runs."""
        return True


class ShortestRemainingService(ShortestRemainingTime):
    """Least remaining service (run time x GPUs) first: the clairvoyant baseline of the paper."""

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: the least remaining service first."""
        return 0, jobs.remaining * jobs.gpus


SMALLEST_FIRST = SmallestFirst()
SHORTEST_REMAINING_TIME = ShortestRemainingTime()
SHORTEST_REMAINING_SERVICE = ShortestRemainingService()
