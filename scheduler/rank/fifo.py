"""First come, first served: with head-of-line blocking (FIFO) or without (best effort). Neither preempts."""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows


class Fifo(IncrementalPolicy):
    """FIFO with head-of-line blocking, as YARN-CS: the paper's baseline. No job overtakes another one."""

    preempts = False
    blocks = True

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return one key for all jobs: the submit time decides."""
        return (0,)


class BestEffort(Fifo):
    """FIFO in which smaller jobs overtake a job that does not fit."""

    blocks = False


FIFO, BEST_EFFORT = Fifo(), BestEffort()
