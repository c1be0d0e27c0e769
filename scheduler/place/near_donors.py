"""Nodes for jobs that use remote memory: where other nodes can lend it, preferably nodes under the same leaf switch.

A page of a near donor crosses one switch. The preference changes neither whether a job starts nor on how many nodes. A
node does not lend to its own jobs. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Nodes
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.free_capacity import MEMORY, FreeCapacity, PlacementRequest

_ROUNDING = 1e-6  # MiB


def near_donors(
    nodes: Nodes, kind: PlacementRequest, space: FreeCapacity, place: Callable[[Bools | None], Placement | None]
) -> Placement | None:
    """Return a placement of a job with remote memory; None: it does not fit, or no other nodes can lend its memory.

    O(nodes), and the cost of up to three placements.

    Args:
        nodes: The nodes, with what their donors can lend.
        kind: The request.
        space: The free resources.
        place: Returns a placement on some of the nodes, shape (nodes,); None: on all of them.
    """
    assert nodes.lendable is not None, "as the caller checks"
    needed, others = kind.request.remote_memory, float(nodes.lendable.sum()) - nodes.lendable
    found = place(None)
    if found and any(others[node] < needed / len(found) - _ROUNDING for node, _ in found):
        found = place(others >= needed - _ROUNDING)
    if found is None:
        return None
    near = _near(nodes, nodes.lendable, space, needed)
    if all(near[node] for node, _ in found) or not near.any():
        return found
    nearer = place(near)
    return nearer if nearer is not None and len(nearer) <= len(found) else found


def _near(nodes: Nodes, lendable: Floats, space: FreeCapacity, needed: float) -> Bools:
    """Return the nodes beside which donors under the same leaf switch have the memory, shape (nodes,).

    What jobs take that were placed in `space` does not count: neither memory of donors' nodes nor remote memory.
    """
    leaf, lends = (
        nodes.topology.nearest_groups[0],
        np.clip(lendable, 0.0, np.maximum(space.amount[:, MEMORY], 0.0)),
    )
    of_leaf = np.bincount(leaf, lends).astype(np.float64)
    for placement, remote in space.remote:
        for node, _ in placement:
            of_leaf[leaf[node]] -= remote / len(placement)
    return np.asarray(of_leaf[leaf] - lends >= needed - _ROUNDING, np.bool_)
