"""The resources that Slurm counts (TRES), as amounts that a job needs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.slurm_rules import Partition

_LICENSE = re.compile(r"([^:,|;]+)(?::(\d{1,15}))?")


@lru_cache(10_000)
def licenses(text: str) -> Mapping[str, float]:
    """Return {"matlab": 2, "idl": 1} for "matlab:2,idl"; nothing for a choice ("a|b"), which Slurm makes at the start."""
    if not text or "|" in text:
        return {}
    found = [_LICENSE.fullmatch(one) for one in re.split("[,;]", text)]
    return {one[1]: float(one[2] or 1) for one in found if one}


Amount = Callable[[SlurmJob], float]


@cache
def amount(tres: str) -> Amount:
    """Return the function that gives a job's amount of a TRES; 1 for "", which stands for jobs.

    The amount is a minimum: what an exclusive job gets beyond its request, and untyped GPUs of a type, are not counted.
    """
    if tres.startswith("gres/gpu:"):
        kind = tres.removeprefix("gres/gpu:")
        return lambda job: float(job.gpus if job.gpu_type == kind else 0)
    if tres.startswith("license/"):
        name = tres.removeprefix("license/")
        return lambda job: licenses(job.licenses).get(name, 0.0) if job.licenses else 0.0
    return _PLAIN.get(tres, lambda job: 0.0)


def nodes(job: SlurmJob) -> float:
    """Return the number of nodes that the job holds or needs at least."""
    return float(max(len(job.shares) or job.min_nodes, 1))


def _memory(job: SlurmJob) -> float:
    held = sum(share.memory for share in job.shares)
    return held or job.memory_per_node * nodes(job) or float(job.memory_per_cpu * job.cpus)


_PLAIN: Mapping[str, Amount] = {
    "": lambda job: 1.0,
    "cpu": lambda job: float(job.cpus),
    "mem": _memory,
    "node": nodes,
    "gres/gpu": lambda job: float(job.gpus),
}


def is_counted(tres: str) -> bool:
    """Return whether `amount` supports this TRES."""
    return tres in _PLAIN or tres.startswith(("gres/gpu:", "license/"))


def minutes(job: SlurmJob, partition: Partition | None) -> float:
    """Return the time limit in minutes.

    A job without a limit shows its partition's maximum, and gets the partition's default where it has one.
    """
    limit = job.time_limit or math.inf
    if partition and partition.default_time < limit and limit >= partition.max_time:
        limit = partition.default_time
    return limit / 60
