"""The predicted seconds of training left of jobs (`Jobs.seconds_by_size`), by their GPUs.

A parameter server takes a GPU as a worker does, so a job with servers is as fast on some GPUs as their best split into servers and
workers.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Floats, Ints, Jobs


def by_gpus(table: Floats) -> Floats:
    """Return the seconds left by GPUs, the servers among them, shape (most GPUs + 1,); inf where no size is known to be possible.

    Args:
        table: The seconds by servers and workers, shape (servers + 1, workers + 1).
    """
    known = np.where(np.isfinite(table), table, np.inf)
    if len(known) == 1:
        return np.asarray(known[0])
    servers, workers = known.shape
    found = np.full(servers + workers - 1, np.inf)
    for row in range(servers):
        found[row : row + workers] = np.minimum(found[row : row + workers], known[row])
    return found


def best_servers(table: Floats, gpus: int) -> int:
    """Return the servers of the fastest split of some GPUs into servers and workers; 0 where none is known to be possible."""
    servers = np.arange(max(0, gpus - table.shape[1] + 1), min(len(table), gpus + 1))
    seconds = table[servers, gpus - servers]
    known = np.where(np.isfinite(seconds), seconds, np.inf)
    return int(servers[known.argmin()]) if np.isfinite(known).any() else 0


def best_splits(jobs: Jobs) -> Ints:
    """Return the parameter servers of each job, shape (jobs,): the fastest split of its GPUs, half of them without a prediction."""
    assert jobs.servers is not None
    found = np.where(jobs.servers > 0, jobs.gpus // 2, 0)
    for row in np.flatnonzero(jobs.servers > 0).tolist():
        table = jobs.seconds_by_size[row] if jobs.seconds_by_size else None
        if table is not None:
            found[row] = best_servers(table, int(jobs.gpus[row])) or found[row]
    return found


def seconds_left(jobs: Jobs, gpus: Ints) -> Floats:
    """Return the seconds left of each job with some GPUs, shape (jobs,); nan where they are not known."""
    found = np.full(len(jobs), np.nan)
    for row, table in enumerate(jobs.seconds_by_size or ()):
        if table is not None and gpus[row] < sum(table.shape) - 1:
            seconds = by_gpus(table)[gpus[row]]
            found[row] = seconds if np.isfinite(seconds) else np.nan
    return found


def present_seconds(jobs: Jobs) -> Floats:
    """Return the seconds left of each job with the GPUs and parameter servers that it has, shape (jobs,); nan: not known."""
    found = seconds_left(jobs, jobs.gpus)
    if jobs.seconds_now is not None:
        found = np.where(np.isnan(jobs.seconds_now), found, jobs.seconds_now)
    if jobs.servers is not None and jobs.seconds_by_size is not None:
        for row in np.flatnonzero(jobs.servers > 0).tolist():
            found[row] = _of_split(jobs.seconds_by_size[row], int(jobs.servers[row]), int(jobs.gpus[row]), found[row])
    return found


def _of_split(table: Floats | None, servers: int, gpus: int, unknown: float) -> float:
    """Return the seconds left with some of the GPUs as servers; `unknown` where the table has no such split."""
    if table is None or servers >= len(table) or not 0 <= gpus - servers < table.shape[1]:
        return unknown
    seconds = float(table[servers, gpus - servers])
    return seconds if np.isfinite(seconds) else unknown
