"""Smallest first (section 3.2.1): the fewer GPUs, the more urgent. Knows nothing of time."""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.policy import Policy, Rows


class SmallestFirst(Policy):
    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        return 0, jobs.gpus
