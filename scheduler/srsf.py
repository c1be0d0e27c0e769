"""Shortest remaining service first (section 3.2.1): the clairvoyant baseline. For the simulator, which knows durations."""

from __future__ import annotations

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Snapshot
from tiresias.scheduler.policy import Ranking, never, plain_ranking


class Srsf:
    preempts = True
    blocks = False
    next_change = staticmethod(never)  # remaining service only shrinks while a job runs, which moves it forward

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        jobs = snapshot.jobs
        if jobs.duration is None:
            raise ValueError("srsf needs the durations of the jobs")
        remaining = (jobs.duration - jobs.ran) * jobs.gpus
        return plain_ranking((remaining, jobs.submit), snapshot)
