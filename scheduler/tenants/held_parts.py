"""How many GPUs of each part of a node a job holds, where the parts of nodes are selectable (`Topology.selectable`).

The GPUs of a node belong to its finest parts in equal numbers, in the order of their indexes. The columns of islands in `Resources`
have the GPUs on each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tiresias.scheduler.model import Floats, Ints, Snapshot
from tiresias.scheduler.topology_tree import Parts, Topology


def part_of_gpu(index: int, gpus: int, parts: int) -> int:
    """Return the part of a GPU by its index on a node of so many GPUs and parts."""
    return index * max(parts, 1) // gpus


def parts_of_gpus(topology: Topology, node: int, indexes: Sequence[int]) -> Parts:
    """Return the parts of some GPUs of a node, by their indexes; (): the node has no selectable parts."""
    parts, gpus = int(topology.selectable_parts[node]), int(topology.gpus[node])
    found = Counter(part_of_gpu(index, gpus, parts) for index in indexes)
    return tuple(found[at] for at in range(parts)) if parts > 1 else ()


def held_parts(snapshot: Snapshot, rows: Ints) -> list[Parts]:
    """Return the parts of some rows of the allocations."""
    held, topology = snapshot.allocations, snapshot.nodes.topology
    return _checked(topology, held.node[rows], held.resources.islands[rows], held.resources["gpus"][rows])


def unmanaged_parts(snapshot: Snapshot, gpus: Ints) -> list[Parts]:
    """Return the parts of what no managed job holds on each node. `gpus`: their number on each node, shape (nodes,)."""
    nodes, held = snapshot.nodes, snapshot.allocations
    if nodes.topology.selectable is None:
        return [()] * len(nodes)
    taken = parts_of_nodes(nodes.topology, nodes.free.islands.shape[1]) - nodes.free.islands
    np.subtract.at(taken, held.node, held.resources.islands)
    return _checked(nodes.topology, np.arange(len(nodes)), taken, gpus)


def parts_of_nodes(topology: Topology, columns: int) -> Floats:
    """Return the GPUs of each part of each node, shape (nodes, columns); 0 beyond the parts of a node."""
    parts = topology.selectable_parts[:, None]
    found: Floats = np.where(np.arange(columns) < parts, topology.gpus[:, None] / parts, 0.0)
    return found


def _checked(topology: Topology, nodes: Ints, counts: Floats, gpus: Ints | Floats) -> list[Parts]:
    """Return the counts of each row, shape (rows, parts); () where they are not all its GPUs."""
    if topology.selectable is None:
        return [()] * len(nodes)
    rows: Sequence[Sequence[int]] = np.rint(counts).astype(np.int64).tolist()
    found = []
    for node, row, total in zip(nodes.tolist(), rows, gpus.tolist(), strict=True):
        own = tuple(row[: topology.selectable_parts[node]])
        known = len(own) > 1 and min(own) >= 0 and sum(own) == round(total)
        found.append(own if known else ())
    return found
