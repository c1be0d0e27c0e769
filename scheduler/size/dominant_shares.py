"""The sizing `drf`, a baseline: each job its fewest GPUs, then the next step to the job with the least share of the cluster.

Progressive filling of dominant shares (DRF, NSDI 2011), of GPUs alone, until no GPU is left or all jobs have their most: GPUs are
given whether they shorten a job or not. A job with parameter servers grows by a server and a worker at a time, as in Optimus
(EuroSys 2018, section 6.1). Sizes change without regard to what that costs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Ints, Jobs, Snapshot
from tiresias.scheduler.size.minimum_first import MINIMUM_FIRST


class DominantShares:
    """Equal shares for all jobs."""

    weighs_cost = False

    def sizes(self, snapshot: Snapshot, order: Ints) -> Ints:
        """Return the GPUs of each job. O(jobs + steps x log elastic jobs)."""
        return MINIMUM_FIRST.sizes(in_pairs(snapshot), order)

    def servers(self, jobs: Jobs) -> Ints:
        """Return as many servers as workers."""
        return equal_servers(jobs)


DOMINANT_SHARES = DominantShares()


def in_pairs(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with steps of a server and a worker for jobs with servers."""
    jobs = snapshot.jobs
    if jobs.servers is None or jobs.gpu_step is None:
        return snapshot
    return replace(snapshot, jobs=replace(jobs, gpu_step=np.where(jobs.servers > 0, 2, 1) * jobs.gpu_step))


def equal_servers(jobs: Jobs) -> Ints:
    """Return the servers of each job, shape (jobs,): half the GPUs of those that have servers."""
    assert jobs.servers is not None
    return np.where(jobs.servers > 0, jobs.gpus // 2, 0)
