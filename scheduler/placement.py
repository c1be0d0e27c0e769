"""Puts one job on nodes: the fewest nodes, in one leaf where it can be, best fit; over fragments where it must be.

`place` finds nodes whenever there are any ("not now" otherwise). `possible` asks the same of the empty cluster ("never").
O(nodes log nodes) a job in the worst case, O(nodes) for a job that fits on one node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Nodes, Request

GPUS, CPUS, MEMORY = 0, 1, 2  # columns of a room

Placement = tuple[tuple[int, int], ...]  # (row in Nodes, GPUs)


@dataclass(slots=True, eq=False)
class Placer:
    """Rooms are arrays of shape (nodes, 3): GPUs, CPUs and MB that may be used on each node."""

    nodes: Nodes
    _allowed: dict[Request, Bools] = field(default_factory=dict)
    _possible: dict[tuple[Request, int], bool] = field(default_factory=dict)

    def place(self, request: Request, gpus: int, room: Floats) -> Placement | None:
        """Nodes in `room` for a job, or None: not now."""
        return _choose(
            request, gpus, self._fitting(request, room, self.allowed(request) & self.nodes.usable), self.nodes
        )

    def possible(self, request: Request, gpus: int) -> bool:
        """Whether the job could run on the empty cluster with every node up. CPUs and memory are left out: how much of
        them other jobs hold is not known here."""
        if (request, gpus) not in self._possible:
            fit = np.where(self.allowed(request), self.nodes.gpus, 0)
            self._possible[request, gpus] = _choose(request, gpus, fit, self.nodes) is not None
        return self._possible[request, gpus]

    def allowed(self, request: Request) -> Bools:
        """Nodes that the request names or describes, shape (nodes,)."""
        if request not in self._allowed:
            self._allowed[request] = _allowed(request, self.nodes)
        return self._allowed[request]

    @staticmethod
    def _fitting(request: Request, room: Floats, allowed: Bools) -> Ints:
        """GPUs that each node can give to this job, shape (nodes,)."""
        fit = room[:, GPUS]
        if request.cpus_per_gpu:
            fit = np.minimum(fit, np.floor(room[:, CPUS] / request.cpus_per_gpu + 1e-9))
        if request.memory_per_node:
            fit = np.where(room[:, MEMORY] >= request.memory_per_node, fit, 0)
        elif request.memory_per_gpu:
            fit = np.minimum(fit, np.floor(room[:, MEMORY] / request.memory_per_gpu + 1e-9))
        return np.where(allowed, fit, 0).astype(np.int64)


def amounts(request: Request, gpus: int) -> Floats:
    """What a job takes of a node on which it has so many GPUs; shape (3,)."""
    memory = request.memory_per_node or request.memory_per_gpu * gpus
    return np.array((gpus, request.cpus_per_gpu * gpus, memory))


def _allowed(request: Request, nodes: Nodes) -> Bools:
    tests: list[Callable[[int], bool]] = []
    if request.gpu_type:
        tests.append(lambda row: nodes.gpu_type[row] == request.gpu_type)
    if request.features:
        tests.append(lambda row: request.features <= nodes.features[row])
    if request.nodes:
        tests.append(lambda row: nodes.name[row] in request.nodes)
    if request.excluded:
        tests.append(lambda row: nodes.name[row] not in request.excluded)
    return np.array([all(test(row) for test in tests) for row in range(len(nodes))], dtype=bool)


def _choose(request: Request, gpus: int, fit: Ints, nodes: Nodes) -> Placement | None:
    """`fit`: GPUs that each node can give."""
    if request.gpus_per_node:
        return _equal(request, gpus, fit, nodes.leaf)
    if request.min_nodes <= 1:
        node = _tightest(fit, gpus)
        if node is not None:
            return ((node, gpus),)
    return _several(request, gpus, fit, nodes.leaf)


def _tightest(fit: Ints, gpus: int) -> int | None:
    """The node with the least room that is enough; ties by row."""
    if not fit.size:
        return None
    left = np.where(fit >= gpus, fit, np.iinfo(np.int64).max)
    node = int(left.argmin())
    return node if fit[node] >= gpus else None


def _equal(request: Request, gpus: int, fit: Ints, leaf: Ints) -> Placement | None:
    """The same number of GPUs on each node."""
    count, rest = divmod(gpus, request.gpus_per_node)
    if rest or not _count_allowed(count, request):
        return None
    # A node gives gpus_per_node or nothing, so that "the fewest" is settled; best fit goes on by what is left of it.
    enough = np.flatnonzero(fit >= request.gpus_per_node)
    if len(enough) < count:
        return None
    here = _one_leaf(np.ones(len(enough), np.int64), leaf[enough], count, count)
    enough = enough if here is None else enough[here]
    tight = enough[np.argsort(fit[enough], kind="stable")[:count]]
    return tuple((int(node), request.gpus_per_node) for node in np.sort(tight))


def _count_allowed(count: int, request: Request) -> bool:
    return count >= request.min_nodes and (not request.max_nodes or count <= request.max_nodes)


def _several(request: Request, gpus: int, fit: Ints, leaf: Ints) -> Placement | None:
    some = np.flatnonzero(fit > 0)
    largest = some[np.argsort(-fit[some], kind="stable")]
    total = np.cumsum(fit[largest])
    count = max(int(np.searchsorted(total, gpus)) + 1, request.min_nodes)
    if count > min(len(largest), gpus) or not _count_allowed(count, request):
        return None
    here = _one_leaf(fit[largest], leaf[largest], count, gpus)
    return _fill(largest if here is None else largest[here], fit, count, gpus)


def _one_leaf(fit: Ints, leaf: Ints, count: int, gpus: int) -> Bools | None:
    """The nodes of the leaf with the least room in which `count` nodes are enough; None: there is no such leaf.

    `fit`, `leaf`: shape (candidates,), the roomiest first.
    """
    order = np.argsort(leaf, kind="stable")
    _, first, which = np.unique(leaf[order], return_index=True, return_inverse=True)
    among = np.arange(len(order)) - first[which] < count
    best = np.bincount(which, weights=np.where(among, fit[order], 0))
    enough = (best >= gpus) & (np.bincount(which, weights=among) >= count)
    if not enough.any():
        return None
    room = np.where(enough, np.bincount(which, weights=fit[order]), np.inf)
    return np.asarray(leaf == leaf[order[first[room.argmin()]]])


def _fill(largest: Ints, fit: Ints, count: int, gpus: int) -> Placement:
    """`count` of the nodes, the roomiest first; the last one is the tightest that is enough. Every node gets a GPU."""
    parts: list[tuple[int, int]] = []
    for after in range(count - 1, 0, -1):
        node = int(largest[count - 1 - after])
        share = min(int(fit[node]), gpus - after)
        parts.append((node, share))
        gpus -= share
    rest = largest[count - 1 :]
    last = _tightest(fit[rest], gpus)
    assert last is not None  # the roomiest `count` nodes are enough together
    return tuple(sorted([*parts, (int(rest[last]), gpus)]))
