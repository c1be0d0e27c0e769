"""GPU islands: on which islands of its nodes a job has its GPUs, by node features and Slurm's GRES indexes. Pure.

A feature such as socket:2 or nvlink:4 is the number of equal parts into which the indexes of a node's GPUs are divided, in their
order. GPU types divide a node, too: one with gpu:s0:2,gpu:s1:2 has an island of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Ints, Snapshot
from tiresias.scheduler.place.gpu_islands import choose
from tiresias.scheduler.topology_tree import MAX_ISLANDS, Division, island_count
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode

_NUMBERS = frozenset(map(str, range(1, MAX_ISLANDS + 1)))


class Held(NamedTuple):
    """The GPUs that a job holds on a node.

    Attributes:
        node: Row of the node.
        gpus: Number of GPUs.
        indexes: GRES indexes; fewer than `gpus` where Slurm does not report all.
    """

    node: int
    gpus: int
    indexes: tuple[int, ...]


def with_islands(
    snapshot: Snapshot,
    nodes: Sequence[SlurmNode],
    shown: Sequence[SlurmJob],
    others: Sequence[SlurmJob],
    levels: Sequence[str],
) -> Snapshot:
    """Return the snapshot with islands; unchanged where no node has any.

    Args:
        snapshot: The snapshot without islands.
        nodes: Its nodes, row by row.
        shown: Its jobs, row by row.
        others: Other jobs that may hold GPUs of these nodes.
        levels: Prefixes of features, the nearest level first.
    """
    divisions = tuple(division(node.features, node.gpus, node.gpu_type, tuple(levels)) for node in nodes)
    if all(island_count(each) == 1 for each in divisions):
        return snapshot
    managed = list(_managed(snapshot, shown))
    row_of = {node.name: row for row, node in enumerate(nodes)}
    unmanaged = [
        Held(row_of[share.node], share.gpus, share.gpu_indexes)
        for job in others
        for share in job.shares
        if share.node in row_of
    ]
    free, held = on_islands(snapshot.nodes.gpus.tolist(), divisions, [*managed, *unmanaged])
    return replace(
        snapshot,
        nodes=replace(
            snapshot.nodes,
            topology=snapshot.nodes.topology.with_parts(levels, divisions),
            free=snapshot.nodes.free.with_islands(free),
        ),
        allocations=replace(
            snapshot.allocations, resources=snapshot.allocations.resources.with_islands(held[: len(managed)])
        ),
    )


def _managed(snapshot: Snapshot, shown: Sequence[SlurmJob]) -> Iterator[Held]:
    """Yield what the jobs of the snapshot hold, in the order of its allocations."""
    known = [{share.node: share.gpu_indexes for share in job.shares} for job in shown]
    rows, names = snapshot.allocations, snapshot.nodes.name
    gpus_held = rows.resources["gpus"].astype(np.int64).tolist()
    for job, node, gpus in zip(rows.job.tolist(), rows.node.tolist(), gpus_held, strict=True):
        yield Held(node, gpus, known[job].get(names[node], ()))


@lru_cache(maxsize=10_000)
def division(features: tuple[str, ...], gpus: int, gpu_type: str, levels: tuple[str, ...]) -> Division:
    """Return the number of islands of a node on each level; 1 on all levels where they do not fit into each other.

    GPUs of several types are islands of the last level, unless a feature divides the node.
    """
    found = tuple(_islands(features, gpus, level) for level in levels)
    types = gpu_type.count(",") + 1
    if levels and max(found) == 1 and gpus and gpus % types == 0:
        found = (*found[:-1], types)
    return found if island_count(found) > 1 else (1,) * len(levels)


def _islands(features: tuple[str, ...], gpus: int, level: str) -> int:
    """Return the number of islands on one level; 1 where there is no such feature, or an impossible one."""
    counts = (feature.removeprefix(f"{level}:") for feature in features if feature.startswith(f"{level}:"))
    return next((int(count) for count in counts if count in _NUMBERS and gpus > 0 and gpus % int(count) == 0), 1)


def on_islands(gpus: Sequence[int], divisions: Sequence[Division], held: Sequence[Held]) -> tuple[Ints, Ints]:
    """Return the free GPUs on each island of each node, shape (nodes, islands), and the held GPUs, shape (held, islands).

    Where Slurm reports no indexes, as for a start in progress or a job that is being cleaned up, the GPUs are those that Slurm
    would take of the remaining ones.
    """
    counts = [island_count(each) for each in divisions]
    free = np.zeros((len(gpus), max(counts)), np.int64)
    for node, count in enumerate(counts):
        free[node, :count] = gpus[node] // count
    taken = np.zeros((len(held), free.shape[1]), np.int64)
    for row, (node, count, indexes) in enumerate(held):
        if len(indexes) == count:
            size = gpus[node] // counts[node]
            np.add.at(taken[row], [min(index // size, counts[node] - 1) for index in indexes], 1)
            free[node] -= taken[row]
    for row, (node, count, indexes) in enumerate(held):
        if len(indexes) != count:
            unheld = tuple(max(gpus_left, 0) for gpus_left in free[node, : counts[node]].tolist())
            taken[row, : len(unheld)] = choose(unheld, divisions[node], count).taken
            free[node] -= taken[row]
    return np.maximum(free, 0), taken
