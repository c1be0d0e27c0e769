"""Shortest remaining time first (section 3.2.1): a clairvoyant baseline. For the simulator, which knows durations."""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.policy import Policy, Rows


class ShortestRemainingTime(Policy):
    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        return 0, jobs.remaining

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        return True
