"""What a job takes of the resources that Slurm counts (TRES)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from tiresias.slurm_plugin.backends.protocol import SlurmJob
from tiresias.slurm_plugin.backends.rules import Partition, Tres

_LICENSE = re.compile(r"([^:,|;]+)(?::(\d{1,15}))?")
CHARGED = frozenset({"cpu", "mem", "node"})  # of which each job takes some


def licenses(text: str) -> Mapping[str, float]:
    """ "matlab:2,idl" -> {"matlab": 2, "idl": 1}; nothing for a choice ("a|b"), which Slurm makes at the start."""
    if not text or "|" in text:
        return {}
    found = [_LICENSE.fullmatch(one) for one in re.split("[,;]", text)]
    return {one[1]: float(one[2] or 1) for one in found if one}


def demand(job: SlurmJob) -> Tres:
    """At least: what an exclusive job gets beyond its request, and untyped GPUs of a type, are not counted."""
    nodes = max(len(job.shares) or job.min_nodes, 1)
    held = sum(share.memory for share in job.shares)
    found = {
        "cpu": float(job.cpus),
        "mem": float(held or job.memory_per_node * nodes or job.memory_per_cpu * job.cpus),
        "node": float(nodes),
        "gres/gpu": float(job.gpus),
    }
    if job.gpu_type and "," not in job.gpu_type:
        found[f"gres/gpu:{job.gpu_type}"] = float(job.gpus)
    if job.licenses:
        found.update({f"license/{name}": count for name, count in licenses(job.licenses).items()})
    return found


def minutes(job: SlurmJob, partition: Partition | None) -> float:
    """The time limit. A job that names none shows its partition's maximum, and gets its default where it has one."""
    limit = job.time_limit or math.inf
    if partition and partition.default_time < limit and limit >= partition.max_time:
        limit = partition.default_time
    return limit / 60
