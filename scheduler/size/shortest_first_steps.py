"""The sizing `tetris`, a baseline: each job its fewest GPUs, then to the job with the least work left all steps that shorten it.

Tetris (SIGCOMM 2014) prefers short jobs and those that take little, and packs them; Optimus (EuroSys 2018, section 6.1) gives it
its own predictions and a server for each worker. With GPUs alone, which all tasks take alike, all jobs have the same alignment,
and the order is that of the predicted GPU-seconds left. Sizes change without regard to what that costs.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Floats, Ints, Jobs, Snapshot
from tiresias.scheduler.size.dominant_shares import equal_servers, in_pairs
from tiresias.scheduler.size.elastic_jobs import can_change, least_sizes, most_sizes
from tiresias.scheduler.size.minimum_first import granted_minima
from tiresias.scheduler.size.predicted_seconds import seconds_left


class ShortestFirstSteps:
    """Steps to the job with the least work left first."""

    weighs_cost = False
    predicts = True

    def sizes(self, snapshot: Snapshot, order: Ints) -> Ints:
        """Return the GPUs of each job. O(jobs x steps)."""
        snapshot = in_pairs(snapshot)
        jobs = snapshot.jobs
        elastic = can_change(jobs)
        if not elastic.any():
            return jobs.gpus
        sizes = np.where(elastic, least_sizes(jobs), jobs.gpus)
        granted, left = granted_minima(snapshot, order, sizes, elastic)
        rows = order[(granted & elastic)[order]]
        work = seconds_left(jobs, sizes)[rows] * sizes[rows]
        for row in rows[np.argsort(work, kind="stable")].tolist():  # those without a prediction are last
            left -= _grow(jobs, row, sizes, left)
        return sizes

    def servers(self, jobs: Jobs) -> Ints:
        """Return as many servers as workers."""
        return equal_servers(jobs)


SHORTEST_FIRST_STEPS = ShortestFirstSteps()


def _grow(jobs: Jobs, row: int, sizes: Ints, left: int) -> int:
    """Add the steps to the size of a job that shorten it, at most all GPUs that are left, and return their GPUs."""
    assert jobs.gpu_step is not None
    least, step = int(sizes[row]), int(jobs.gpu_step[row])
    possible = np.arange(least, min(int(most_sizes(jobs)[row]), least + left) + 1, step)
    seconds = _seconds(jobs, row, possible)
    rising = np.flatnonzero(seconds[1:] >= seconds[:-1])
    sizes[row] = possible[rising[0] if len(rising) else -1]
    return int(sizes[row]) - least


def _seconds(jobs: Jobs, row: int, gpus: Ints) -> Floats:
    """Return the seconds left with a server for each worker, shape (gpus,), without a prediction inversely to the GPUs."""
    table = jobs.seconds_by_size[row] if jobs.seconds_by_size else None
    if table is None:
        return 1.0 / gpus
    servers = gpus // 2 if len(table) > 1 else np.zeros_like(gpus)
    inside = (servers < table.shape[0]) & (gpus - servers < table.shape[1])
    found = table[np.where(inside, servers, 0), np.where(inside, gpus - servers, 0)]
    return np.where(inside & np.isfinite(found), found, np.inf)
