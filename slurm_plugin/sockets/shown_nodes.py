"""The managed nodes as the control socket publishes them, with the jobs on each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, compress
from operator import attrgetter
from typing import Any

from tiresias.scheduler.estimates.learned_node_speeds import NodeSpeed
from tiresias.scheduler.model import Snapshot
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.cluster.shared_gpus import gpus_in_shares


def published_nodes(
    slurm: SlurmSnapshot, snapshot: Snapshot, failing: Collection[str], speeds: Mapping[str, NodeSpeed],
    most: int | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the managed nodes. O(nodes + jobs).

    Args:
        slurm: the records
        snapshot: the managed jobs and nodes
        failing: names of nodes on which runs fail
        speeds: what is known of the speed of nodes, by name
        most: how many nodes are returned, the first ones; None: all
    """
    names = set(snapshot.nodes.name)
    nodes = [node for node in slurm.nodes if node.name in names][:most]
    listed = {node.name for node in nodes}
    managed_on: dict[str, list[list[Any]]] = defaultdict(list)
    others: dict[str, int] = defaultdict(int)
    managed = set(snapshot.jobs.id)
    for job, share in _shares_on(slurm.jobs, listed):
        if job.id in managed:
            managed_on[share.node].append([job.id, share.gpus])
        else:
            others[share.node] += share.gpus
    shared = gpus_in_shares(slurm.jobs)
    return [
        _node(node, managed_on[node.name], others[node.name], len(shared.get(node.name, ())))
        | ({"failing": True} if node.name in failing else {})
        | (_speed(speeds[node.name]) if node.name in speeds else {})
        for node in nodes
    ]


def _speed(speed: NodeSpeed) -> dict[str, Any]:
    return {"slowness": round(speed.slowness, 4), **({"slow": True} if speed.is_slow else {})}


def gpus_held(jobs: Iterable[SlurmJob], names: Collection[str]) -> int:
    """Return how many GPUs jobs hold on the nodes of these names, each shared GPU counted once. O(jobs)."""
    jobs = tuple(jobs)
    shared = sum(len(gpus) for node, gpus in gpus_in_shares(jobs).items() if node in names)
    shares = list(chain.from_iterable(map(attrgetter("shares"), jobs)))
    there = map(names.__contains__, map(attrgetter("node"), shares))
    whole: int = sum(compress(map(attrgetter("gpus"), shares), there))
    return shared + whole


def _shares_on(jobs: Iterable[SlurmJob], names: Collection[str]) -> Iterator[tuple[SlurmJob, NodeShare]]:
    return ((job, share) for job in jobs for share in job.shares if share.node in names)


def _node(node: SlurmNode, allocations: list[list[Any]], other_gpus: int, shared: int) -> dict[str, Any]:
    return {
        "name": node.name,
        "state": "+".join([node.state, *sorted(node.flags)]),
        "gpus": node.gpus,
        "allocations": allocations,
        "other_gpus": other_gpus + shared,
        "features": list(node.features),
        **({"shared_gpus": shared} if shared else {}),
    }
