"""FIFO with head-of-line blocking, as YARN-CS: the paper's baseline. Never preempts, and nobody overtakes."""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Snapshot
from tiresias.scheduler.policy import Ranking, never, plain_ranking


class Fifo:
    preempts = False
    blocks = True
    next_change = staticmethod(never)

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        return plain_ranking((snapshot.jobs.submit,), snapshot)
