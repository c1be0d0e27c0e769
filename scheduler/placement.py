"""Puts one job on nodes: the fewest nodes, in one leaf where it can be, best fit; over fragments where it must be.

`place` finds nodes whenever there are any ("not now" otherwise). `possible` asks the same of the empty cluster ("never").
O(nodes log nodes) a job in the worst case, O(nodes) for a job that fits on one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tiresias.scheduler.model import Bools, Ints, Nodes, Request
from tiresias.scheduler.space import Kind, Placement, Space


class Placer:
    """Knows the nodes, and keeps what it has found out about requests."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._kinds: dict[Request, Kind] = {}
        self._possible: dict[tuple[Kind, int], bool] = {}

    def kind(self, request: Request) -> Kind:
        kind = self._kinds.get(request)
        if kind is None:
            kind = self._kinds[request] = Kind(request, self._described(request) & self._nodes.usable)
        return kind

    def place(self, kind: Kind, gpus: int, space: Space) -> Placement | None:
        """Nodes in `space` for a job, or None: not now."""
        offer = space.offer(kind)
        if not kind.request.gpus_per_node and kind.request.min_nodes <= 1:
            node = offer.tightest(gpus)
            if node is not None:
                return ((node, gpus),)
        return _several_nodes(kind.request, gpus, offer.fit, self._nodes.leaf)

    def possible(self, kind: Kind, gpus: int) -> bool:
        """Whether such a job could run on the empty cluster with every node up. CPUs and memory are left out: how much of
        them other jobs hold is not known here."""
        if (kind, gpus) not in self._possible:
            fit = np.where(self._described(kind.request), self._nodes.gpus, 0)
            self._possible[kind, gpus] = _several_nodes(kind.request, gpus, fit, self._nodes.leaf) is not None
        return self._possible[kind, gpus]

    def _described(self, request: Request) -> Bools:
        """Nodes that the request names or describes, up or down; shape (nodes,)."""
        fitting = np.ones(len(self._nodes), bool)
        for test in _tests(request, self._nodes):
            fitting &= np.fromiter(map(test, range(len(self._nodes))), bool, len(self._nodes))
        return fitting


def _tests(request: Request, nodes: Nodes) -> Iterator[Callable[[int], bool]]:
    if request.gpu_type:
        yield lambda row: nodes.gpu_type[row] == request.gpu_type
    if request.features:
        yield lambda row: request.features <= nodes.features[row]
    if request.nodes:
        yield lambda row: nodes.name[row] in request.nodes
    if request.excluded:
        yield lambda row: nodes.name[row] not in request.excluded


def _several_nodes(request: Request, gpus: int, fit: Ints, leaf: Ints) -> Placement | None:
    """`fit`: GPUs that each node can give."""
    return _equal(request, gpus, fit, leaf) if request.gpus_per_node else _uneven(request, gpus, fit, leaf)


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


def _uneven(request: Request, gpus: int, fit: Ints, leaf: Ints) -> Placement | None:
    some = np.flatnonzero(fit > 0)
    largest = some[np.argsort(-fit[some].astype(np.int16), kind="stable")]  # so short that numpy sorts in linear time
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
    size = np.bincount(leaf)
    order = np.argsort(leaf.astype(np.int16), kind="stable")
    leaf_of = leaf[order]
    among = np.arange(len(order)) - (np.cumsum(size) - size)[leaf_of] < count
    best = np.bincount(leaf_of, weights=np.where(among, fit[order], 0))
    enough = (best >= gpus) & (size >= count)
    if not enough.any():
        return None
    room = np.where(enough, np.bincount(leaf, weights=fit), np.inf)
    return np.asarray(leaf == room.argmin())


def _fill(largest: Ints, fit: Ints, count: int, gpus: int) -> Placement:
    """`count` of the nodes, the roomiest first; the last one is the tightest that is enough. Every node gets a GPU."""
    parts: list[tuple[int, int]] = []
    for after in range(count - 1, 0, -1):
        node = int(largest[count - 1 - after])
        share = min(int(fit[node]), gpus - after)
        parts.append((node, share))
        gpus -= share
    rest = largest[count - 1 :]
    enough = rest[fit[rest] >= gpus]  # at least the first: the roomiest `count` nodes are enough together
    last = enough[np.lexsort((enough, fit[enough]))[0]]
    return tuple(sorted([*parts, (int(last), gpus)]))
