"""The other size of an elastic job with which its rehearsal continues, and whether the program uses it."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import elastic_sizes, rank_files
from tiresias.protocol.elastic_sizes import ElasticSizes
from tiresias.slurm_plugin.backends.interface import RequestChange, SlurmJob
from tiresias.slurm_plugin.state import own_size


class OtherSize(NamedTuple):
    """A size, or why there is none.

    Attributes:
        gpus: The GPUs; 0: there is no other size.
        change: The change of the request.
        why: Why there is no other size.
    """

    gpus: int = 0
    change: RequestChange = RequestChange()
    why: str = ""


def other_size(job: SlurmJob, stated: str) -> OtherSize:
    """Return the next smaller size of a requeued job, which needs no more GPUs, else the next larger one.

    Args:
        job: The job, with its own request.
        stated: Its sizes, as elastic_sizes.py.
    """
    sizes = elastic_sizes.read(stated)
    if sizes is None or not own_size.can_change(job):
        return OtherSize(why="this request cannot change its size")
    step = math.lcm(sizes.step, own_size.unit(job))
    found = [gpus for gpus in (job.gpus - step, job.gpus + step) if sizes.least <= gpus <= sizes.most and gpus > 0]
    if not found:
        return OtherSize(
            why=f"sizes differ from the {job.gpus} GPUs that it requests by multiples of {step}: none is in {stated}"
        )
    return OtherSize(found[0], _change(job, found[0], sizes))


def _change(job: SlurmJob, gpus: int, sizes: ElasticSizes) -> RequestChange:
    servers = own_size.servers_in_proportion(sizes, job, gpus)
    sized, each = own_size.request_of(job, gpus, sizes.servers, servers), own_size.per_node(job)
    nodes = (sized.min_nodes, sized.min_nodes if each else 0)
    total = own_size.total_gpus(gpus, job.gpu_type, bool(each))
    cpus_per_task = sized.cpus // sized.tasks if sizes.servers else None
    return RequestChange(nodes=nodes, tasks=sized.tasks, cpus=sized.cpus, cpus_per_task=cpus_per_task, total_gpus=total)


def ranks_differ(root: Path, job: SlurmJob) -> str:
    """Return how the ranks that registered differ from those of a running job's size; "": they do not.

    Args:
        root: The control root.
        job: The job, of this user.
    """
    found, expected = rank_files.registered(root, os.getuid(), job.id), own_size.ranks(job)
    return "" if found in expected else f"{found} ranks registered with {job.gpus} GPUs in place of {max(expected)}"
