"""On which islands of its nodes a job has its GPUs: from the nodes' features and the GRES indexes that Slurm tells. Pure.

A feature such as socket:2 or nvlink:4 says into how many equal parts the indexes of a node's GPUs are divided, in their order. So
do types: a node with gpu:s0:2,gpu:s1:2 has an island of each.
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
    """node: its row. indexes: fewer than `gpus` where Slurm does not tell all."""

    node: int
    gpus: int
    indexes: tuple[int, ...]


def told(
    snapshot: Snapshot, nodes: Sequence[SlurmNode], shown: Sequence[SlurmJob], others: Sequence[SlurmJob],
    levels: Sequence[str],
) -> Snapshot:  # fmt: skip
    """The snapshot with what is known of islands; as it was where nothing is. nodes, shown: its nodes and jobs. others: may hold
    GPUs too. levels: beginnings of features, the nearest level first."""
    divisions = tuple(division(node.features, node.gpus, node.gpu_type, tuple(levels)) for node in nodes)
    if all(island_count(each) == 1 for each in divisions):
        return snapshot
    ours = list(_ours(snapshot, shown))
    row_of = {node.name: row for row, node in enumerate(nodes)}
    theirs = [
        Held(row_of[share.node], share.gpus, share.gpu_indexes)
        for job in others
        for share in job.shares
        if share.node in row_of
    ]
    free, held = on_islands(snapshot.nodes.gpus.tolist(), divisions, [*ours, *theirs])
    return replace(
        snapshot,
        nodes=replace(
            snapshot.nodes,
            topology=snapshot.nodes.topology.with_parts(levels, divisions),
            free=snapshot.nodes.free.with_islands(free),
        ),
        allocations=replace(
            snapshot.allocations, resources=snapshot.allocations.resources.with_islands(held[: len(ours)])
        ),
    )


def _ours(snapshot: Snapshot, shown: Sequence[SlurmJob]) -> Iterator[Held]:
    """Row by row as in the snapshot's allocations."""
    known = [{share.node: share.gpu_indexes for share in job.shares} for job in shown]
    rows, names = snapshot.allocations, snapshot.nodes.name
    gpus_held = rows.resources["gpus"].astype(np.int64).tolist()
    for job, node, gpus in zip(rows.job.tolist(), rows.node.tolist(), gpus_held, strict=True):
        yield Held(node, gpus, known[job].get(names[node], ()))


@lru_cache(maxsize=10_000)
def division(features: tuple[str, ...], gpus: int, gpu_type: str, levels: tuple[str, ...]) -> Division:
    """1 on all levels where they do not fit into each other. GPUs of several types are islands of the last level, where no
    feature says anything else."""
    found = tuple(_islands(features, gpus, level) for level in levels)
    types = gpu_type.count(",") + 1
    if levels and max(found) == 1 and gpus and gpus % types == 0:
        found = (*found[:-1], types)
    return found if island_count(found) > 1 else (1,) * len(levels)


def _islands(features: tuple[str, ...], gpus: int, level: str) -> int:
    """1 where no feature says, or says what cannot be."""
    counts = (feature.removeprefix(f"{level}:") for feature in features if feature.startswith(f"{level}:"))
    return next((int(count) for count in counts if count in _NUMBERS and gpus > 0 and gpus % int(count) == 0), 1)


def on_islands(gpus: Sequence[int], divisions: Sequence[Division], held: Sequence[Held]) -> tuple[Ints, Ints]:
    """GPUs free on each island of each node, shape (nodes, islands), and those that are held, shape (held, islands).

    What Slurm does not tell, because it has just been promised or is being cleaned up, is what it would take of the rest.
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
            rooms = tuple(max(room, 0) for room in free[node, : counts[node]].tolist())
            taken[row, : len(rooms)] = choose(rooms, divisions[node], count).taken
            free[node] -= taken[row]
    return np.maximum(free, 0), taken
