"""Smallest, shortest and least remaining service first (section 3.2.1): the baselines that sort by one size of a job.

The last two need the remaining run time, which only the simulator knows.
"""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows


class SmallestFirst(IncrementalPolicy):
    """Fewest GPUs first; run times are not considered."""

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        return 0, jobs.gpus


class ShortestRemainingTime(IncrementalPolicy):
    """Shortest remaining run time first."""

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        return 0, jobs.remaining

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        return True


class ShortestRemainingService(ShortestRemainingTime):
    """Least remaining service (run time x GPUs) first: the clairvoyant baseline of the paper."""

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        return 0, jobs.remaining * jobs.gpus


SMALLEST_FIRST = SmallestFirst()
SHORTEST_REMAINING_TIME = ShortestRemainingTime()
SHORTEST_REMAINING_SERVICE = ShortestRemainingService()
