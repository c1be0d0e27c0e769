"""Shortest remaining service first (section 3.2.1): time x GPUs. The clairvoyant baseline of the paper."""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.policy import Policy, Rows


class ShortestRemainingService(Policy):
    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        return 0, jobs.remaining * jobs.gpus

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        return True
