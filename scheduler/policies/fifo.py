"""FIFO with head-of-line blocking, as YARN-CS: the paper's baseline. Never preempts, and nobody overtakes."""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.policy import Policy, Rows


class Fifo(Policy):
    preempts = False
    blocks = True

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        return (0,)
