"""The parameter servers of an elastic job by its GPUs, and the CPUs that they need on each node (protocol/server_counts.py)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tiresias.protocol.elastic_sizes import ElasticSizes
from tiresias.protocol.server_counts import ServerCounts
from tiresias.scheduler.estimates.size_estimate import SizeEstimate
from tiresias.scheduler.model import Floats, Ints
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state import own_size
from tiresias.slurm_plugin.state.journal_rows import JobRow


def by_gpus(row: JobRow, job: SlurmJob, estimate: SizeEstimate | None) -> Ints | None:
    """Return the servers of each size that an elastic job can have, shape (most GPUs + 1,); None: it has no servers.

    Where its speed is not predicted, they are in the proportion of the most servers to the most GPUs.
    """
    sizes = own_size.sizes(row)
    if sizes is None or sizes.servers is None:
        return None
    if estimate is not None and estimate.servers is not None:
        return estimate.servers
    return _in_proportion(sizes, own_size.unit(job), max(row.max_gpus, job.gpus))


@lru_cache(maxsize=1024)
def _in_proportion(sizes: ElasticSizes, gpus_a_worker: int, most: int) -> Ints:
    assert sizes.servers is not None
    found = np.zeros(most + 1, np.int64)
    for gpus in range(gpus_a_worker, most + 1, gpus_a_worker):
        proportional = sizes.servers.in_proportion(gpus, max(sizes.most, gpus))
        found[gpus] = sizes.servers.reached(gpus // gpus_a_worker, proportional)
    return found


@lru_cache(maxsize=1024)
def possible(counts: ServerCounts, gpus_a_worker: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Return the possible numbers of servers by GPUs, up to the most GPUs of the job; () where these are not a size."""
    sizes = range(most + 1)
    return tuple(counts.possible(gpus // gpus_a_worker) if gpus and not gpus % gpus_a_worker else () for gpus in sizes)


def cpus_by_gpus(row: JobRow, job: SlurmJob, servers: Ints) -> Floats:
    """Return the CPUs for each GPU of a job with servers by its GPUs, shape (most GPUs + 1,).

    Args:
        row: Its row.
        job: Its record.
        servers: Its servers by GPUs, shape (most GPUs + 1,).
    """
    counts = own_size.server_counts(row)
    assert counts is not None
    return _cpus_by_gpus(counts, own_size.unit(job), tuple(servers.tolist()))


@lru_cache(maxsize=1024)
def _cpus_by_gpus(counts: ServerCounts, gpus_a_worker: int, servers: tuple[int, ...]) -> Floats:
    found = [counts.cpus_per_task(gpus // gpus_a_worker, count) / gpus_a_worker for gpus, count in enumerate(servers)]
    return np.array(found)
