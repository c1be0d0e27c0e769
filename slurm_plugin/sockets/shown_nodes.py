"""The managed nodes as the control socket publishes them, with the jobs on each."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tiresias.scheduler.model import Snapshot
from tiresias.slurm_plugin.backends.interface import SlurmNode, SlurmSnapshot


def published_nodes(slurm: SlurmSnapshot, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the managed nodes. O(nodes + jobs)."""
    managed_on: dict[str, list[list[Any]]] = defaultdict(list)
    others: dict[str, int] = defaultdict(int)
    managed = set(snapshot.jobs.id)
    for job in slurm.jobs:
        for share in job.shares:
            if job.id in managed:
                managed_on[share.node].append([job.id, share.gpus])
            else:
                others[share.node] += share.gpus
    names = set(snapshot.nodes.name)
    return [_node(node, managed_on[node.name], others[node.name]) for node in slurm.nodes if node.name in names]


def _node(node: SlurmNode, allocations: list[list[Any]], other_gpus: int) -> dict[str, Any]:
    return {
        "name": node.name,
        "state": "+".join([node.state, *sorted(node.flags)]),
        "gpus": node.gpus,
        "allocations": allocations,
        "other_gpus": other_gpus,
        "features": list(node.features),
    }
