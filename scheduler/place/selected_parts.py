"""The parts of nodes that starts select, where the parts are selectable (`Topology.selectable`).

A job gets the fewest parts, as Slurm would choose them. A start without parts could get GPUs of a part that another start selects.
Starts in cells of a virtual cluster have the parts of their cells (`tenants/guaranteed_starts.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Floats, Nodes, Plan, Snapshot, Start
from tiresias.scheduler.place.gpu_islands import choose
from tiresias.scheduler.topology_tree import Parts


def with_parts(plan: Plan, snapshot: Snapshot) -> Plan:
    """Return the plan with parts for each start, as far as they are free. O(jobs + nodes); nothing where none are selectable."""
    if snapshot.nodes.topology.selectable is None:
        return plan
    left = snapshot.nodes.free.islands.copy()
    kinds = {job: request.gpu_type for job, request in zip(snapshot.jobs.id, snapshot.jobs.request, strict=True)}
    row = {name: at for at, name in enumerate(snapshot.nodes.name)}
    actions = [
        _selected(action, snapshot.nodes, row, left, kinds[action.job]) if isinstance(action, Start) else action
        for action in plan.actions
    ]
    return replace(plan, actions=tuple(actions))


def promised_parts(nodes: Nodes, starts: Iterable[Start]) -> Floats:
    """Return the GPUs that starts with parts take of each part, shape (nodes, parts)."""
    found = np.zeros_like(nodes.free.islands)
    if nodes.topology.selectable is None:
        return found
    row = {name: at for at, name in enumerate(nodes.name)}
    for start in starts:
        for (name, _), parts in zip(start.nodes, start.parts, strict=False):
            found[row[name], : len(parts)] += parts
    return found


def is_of_type(nodes: Nodes, node: int, gpu_type: str, parts: Parts) -> bool:
    """Return whether all GPUs of these parts of a node have a GPU type; "": any."""
    at = only_part(nodes, node, gpu_type)
    return at is None or not parts or sum(parts) == parts[at]


def _selected(start: Start, nodes: Nodes, row: dict[str, int], left: Floats, gpu_type: str) -> Start:
    """Return the start with parts, which are taken from what is left."""
    shares = [_taken(nodes, row[name], gpus, left, gpu_type) for name, gpus in start.nodes]
    for (name, _), parts in zip(start.nodes, shares, strict=True):
        left[row[name], : len(parts)] -= parts
    return replace(start, parts=tuple(shares)) if any(shares) else start


def _taken(nodes: Nodes, node: int, gpus: int, left: Floats, gpu_type: str) -> Parts:
    count = int(nodes.topology.selectable_parts[node])
    if count == 1:
        return ()
    only = only_part(nodes, node, gpu_type)
    free = tuple(max(int(each), 0) if only in (None, at) else 0 for at, each in enumerate(left[node, :count].tolist()))
    taken = choose(free, nodes.topology.divisions[node], gpus).taken
    return taken if sum(taken) == gpus else ()


def only_part(nodes: Nodes, node: int, gpu_type: str) -> int | None:
    """Return the part of a node that alone has a GPU type; None: there is none, or any type will do."""
    types = nodes.gpu_type[node].split(",")
    is_part = gpu_type in types and len(types) == int(nodes.topology.selectable_parts[node]) > 1
    return types.index(gpu_type) if is_part else None
