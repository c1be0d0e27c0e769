"""GPU islands: on which islands of its nodes a job has its GPUs, by node features and Slurm's GRES indexes. Pure.

A feature such as socket:2 or nvlink:4 is the number of equal parts into which the indexes of a node's GPUs are divided, in their
order. Without one, the level socket has as many parts as Slurm reports sockets of the node's GPUs. GPU types divide a node, too:
one with gpu:s0:2,gpu:s1:2 has an island of each. Where the parts of the features are not those of the types, as on a node with
gpu:a100:1,gpu:1g.10gb:7, the types alone divide it, so that GPUs of one type are never counted for another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Ints, Snapshot
from tiresias.scheduler.place.gpu_islands import choose
from tiresias.scheduler.topology_tree import MAX_ISLANDS, Division, Topology, island_count
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmNode
from tiresias.slurm_plugin.cluster.part_types import named_parts
from tiresias.slurm_plugin.cluster.shared_gpus import gpus_in_shares

SOCKET = "socket"  # the level of which Slurm reports the parts
GPU_TYPE = "gpu_type"  # the level of GPUs of several types where no level is configured
_NUMBERS = frozenset(map(str, range(1, MAX_ISLANDS + 1)))


class Held(NamedTuple):
    """The GPUs that a job holds on a node.

    Attributes:
        node: Row of the node.
        gpus: Number of GPUs.
        indexes: GRES indexes; fewer than `gpus` where Slurm does not report all.
        parts: GPUs on each island of the finest level, as the start selects them; () where it does not.
        types: GPUs of each type of the node, where it has several; () where they are not known.
    """

    node: int
    gpus: int
    indexes: tuple[int, ...]
    parts: tuple[int, ...] = ()
    types: tuple[int, ...] = ()


NONE_SELECTED: Mapping[str, Mapping[str, tuple[int, ...]]] = {}


def with_islands(
    snapshot: Snapshot,
    nodes: Sequence[SlurmNode],
    shown: Sequence[SlurmJob],
    others: Sequence[SlurmJob],
    selected: Mapping[str, Mapping[str, tuple[int, ...]]] = NONE_SELECTED,
) -> Snapshot:
    """Return the snapshot with islands; unchanged where no node has any.

    Args:
        snapshot: The snapshot without islands; its tree has the parts of the nodes.
        nodes: Its nodes, row by row.
        shown: Its jobs, row by row.
        others: Other jobs that may hold GPUs of these nodes.
        selected: The parts that starts in progress select, by job id and node.
    """
    topology = snapshot.nodes.topology
    if not topology.parts:
        return snapshot
    managed = list(_managed(snapshot, nodes, shown, selected))
    row_of = {node.name: row for row, node in enumerate(nodes)}
    unmanaged = [
        _held(row_of[share.node], nodes[row_of[share.node]], share)
        for job in others
        for share in job.shares
        if share.node in row_of
    ]
    unmanaged += [
        Held(row_of[node], len(gpus), tuple(gpus)) for node, gpus in gpus_in_shares(others).items() if node in row_of
    ]
    sizes = [topology.part_sizes(row) for row in range(len(nodes))]
    free, held = on_islands(sizes, topology.divisions, [*managed, *unmanaged])
    return replace(
        snapshot,
        nodes=replace(
            snapshot.nodes,
            free=snapshot.nodes.free.with_islands(free),
        ),
        allocations=replace(
            snapshot.allocations, resources=snapshot.allocations.resources.with_islands(held[: len(managed)])
        ),
    )


def with_parts(
    topology: Topology, nodes: Sequence[SlurmNode], levels: Sequence[str], part_types: Sequence[str]
) -> Topology:
    """Return the tree with the parts of the nodes; unchanged where no node has any.

    Args:
        topology: The tree without parts.
        nodes: Its nodes, row by row.
        levels: Prefixes of features, the nearest level first.
        part_types: GPU types that name the parts; (): starts select none.
    """
    names = tuple(levels) or (GPU_TYPE,)
    divisions = tuple(_division(node, names, part_types) for node in nodes)
    if all(island_count(each) == 1 for each in divisions):
        return topology
    selectable = [named_parts(node, part_types) > 1 for node in nodes]
    uneven = {row: sizes for row, node in enumerate(nodes) if len(set(sizes := type_sizes(node))) > 1}
    return topology.with_parts(names, divisions, selectable if any(selectable) else None, uneven)


def _managed(
    snapshot: Snapshot,
    nodes: Sequence[SlurmNode],
    shown: Sequence[SlurmJob],
    selected: Mapping[str, Mapping[str, tuple[int, ...]]],
) -> Iterator[Held]:
    """Yield what the jobs of the snapshot hold, in the order of its allocations."""
    known = [{share.node: share for share in job.shares} for job in shown]
    rows, names = snapshot.allocations, snapshot.nodes.name
    gpus_held = rows.resources["gpus"].astype(np.int64).tolist()
    for job, node, gpus in zip(rows.job.tolist(), rows.node.tolist(), gpus_held, strict=True):
        parts = selected.get(shown[job].id, {}).get(names[node]) or _of_type(nodes[node], shown[job].gpu_type, gpus)
        share = known[job].get(names[node], NodeShare(names[node], gpus, 0, 0))
        yield _held(node, nodes[node], replace(share, gpus=gpus), parts)


def _held(row: int, node: SlurmNode, share: NodeShare, parts: tuple[int, ...] = ()) -> Held:
    """Return what a job holds on a node. parts: as its start selects them."""
    counts = dict(share.gpu_types)
    types = tuple(counts.get(kind, 0) for kind, _ in node.gpus_by_type) if type_sizes(node) else ()
    return Held(row, share.gpus, share.gpu_indexes, parts, types)


def _of_type(node: SlurmNode, gpu_type: str, gpus: int) -> tuple[int, ...]:
    """Return the parts of GPUs of one type, where the node has several; () where it has not."""
    types = [kind for kind, _ in node.gpus_by_type]
    return tuple(gpus if kind == gpu_type else 0 for kind in types) if gpu_type in types and len(types) > 1 else ()


def type_sizes(node: SlurmNode) -> tuple[int, ...]:
    """Return the GPUs of each type of a node; () where it has one type, or more than can be counted apart."""
    types = dict(node.gpus_by_type)
    is_counted = len(types) == len(node.gpus_by_type) and sum(types.values()) == node.gpus
    return tuple(types.values()) if is_counted and 1 < len(types) <= MAX_ISLANDS else ()


def _division(node: SlurmNode, levels: tuple[str, ...], part_types: Sequence[str]) -> Division:
    """Return the division of a node. Where GPU types name its parts, these are the finest ones."""
    parts, sizes = named_parts(node, part_types), type_sizes(node)
    found = division(node.features, node.gpus, node.gpu_type, levels, node.gpu_sockets)
    if parts == 1:
        as_types = not sizes or _are_parts(node, levels, sizes)
        return found if as_types else (*(1,) * len(levels[1:]), len(sizes))
    coarse = tuple(count if count <= parts and parts % count == 0 else 1 for count in found)
    return coarse if parts in coarse else (*coarse[:-1], parts)


def _are_parts(node: SlurmNode, levels: tuple[str, ...], types: tuple[int, ...]) -> bool:
    """Return whether the finest parts of the node, by its features and sockets, are as many and as large as its GPU types."""
    found = division(node.features, node.gpus, node.gpu_type, levels, node.gpu_sockets)
    return len(set(types)) == 1 and island_count(found) == len(types)


@lru_cache(maxsize=10_000)
def division(
    features: tuple[str, ...], gpus: int, gpu_type: str, levels: tuple[str, ...], sockets: int = 0
) -> Division:
    """Return the number of islands of a node on each level; 1 on all levels where they do not fit into each other.

    GPUs of several types are islands of the last level, unless a feature or the sockets of its GPUs divide the node.
    """
    found = tuple(_islands((*features, f"{SOCKET}:{sockets}"), gpus, level) for level in levels)
    types = gpu_type.count(",") + 1
    if levels and max(found) == 1 and gpus and gpus % types == 0:
        found = (*found[:-1], types)
    return found if island_count(found) > 1 else (1,) * len(levels)


def _islands(features: tuple[str, ...], gpus: int, level: str) -> int:
    """Return the number of islands on one level; 1 where there is no such feature, or an impossible one."""
    counts = (feature.removeprefix(f"{level}:") for feature in features if feature.startswith(f"{level}:"))
    return next((int(count) for count in counts if count in _NUMBERS and gpus > 0 and gpus % int(count) == 0), 1)


def contradictions(node: SlurmNode, levels: tuple[str, ...]) -> Iterator[str]:
    """Yield why a feature on the parts of a node has no effect, or differs from the sockets that its GRES names."""
    for level in levels:
        for feature in (one for one in node.features if one.startswith(f"{level}:")):
            count = _islands((feature,), node.gpus, level)
            if feature != f"{level}:{count}":
                yield f"{feature} is ignored: no number from 1 to {MAX_ISLANDS} that divides its {node.gpus} GPUs"
            elif level == SOCKET and node.gpu_sockets not in (0, count):
                yield f"{feature}, and GRES has its GPUs on {node.gpu_sockets} sockets; the feature counts"
    counts = [(level, _islands(node.features, node.gpus, level)) for level in levels]
    if (types := type_sizes(node)) and max(count for _, count in counts) > 1 and not _are_parts(node, levels, types):
        named = ", ".join(f"gpu:{kind}:{count}" for kind, count in node.gpus_by_type)
        parts = " and ".join(f"{level}:{count}" for level, count in counts if count > 1)
        yield f"{parts} is ignored: its GPUs are counted by type ({named})"
        return
    if any(count > 1 for _, count in counts) and island_count(tuple(count for _, count in counts)) == 1:
        parts = " and ".join(f"{level}:{count}" for level, count in counts if count > 1)
        yield f"{parts} are ignored: the parts of one do not lie in those of the other"


def on_islands(
    sizes: Sequence[tuple[int, ...]], divisions: Sequence[Division], held: Sequence[Held]
) -> tuple[Ints, Ints]:
    """Return the free GPUs on each island of each node, shape (nodes, islands), and the held GPUs, shape (held, islands).

    Where Slurm reports no indexes, as for a start in progress or a job that is being cleaned up, the GPUs are those that the start
    selects, or those that Slurm would take of the remaining ones.

    Args:
        sizes: GPUs of each island of each node.
        divisions: The division of each node.
        held: What jobs hold.
    """
    counts = [len(each) for each in sizes]
    free = np.zeros((len(sizes), max(counts)), np.int64)
    for node, count in enumerate(counts):
        free[node, :count] = sizes[node]
    taken = np.zeros((len(held), free.shape[1]), np.int64)
    known = [_known(one, sizes[one.node]) for one in held]
    for row, parts in enumerate(known):
        if parts:
            taken[row, : len(parts)] = parts
            free[held[row].node] -= taken[row]
    for row, (node, count, *_) in enumerate(held):
        if not known[row]:
            unheld = tuple(max(gpus_left, 0) for gpus_left in free[node, : counts[node]].tolist())
            taken[row, : len(unheld)] = choose(unheld, divisions[node], count).taken
            free[node] -= taken[row]
    return np.maximum(free, 0), taken


def _known(held: Held, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the GPUs on each island where they are known; () where they are not. `sizes`: GPUs of each island."""
    if len(held.types) == len(sizes) and sum(held.types) == held.gpus:
        return held.types
    if len(held.indexes) == held.gpus:
        ends, last = list(accumulate(sizes)), len(sizes) - 1
        found = Counter(min(bisect_right(ends, index), last) for index in held.indexes)
        return tuple(found[at] for at in range(len(sizes)))
    return held.parts if len(held.parts) == len(sizes) and sum(held.parts) == held.gpus else ()
