"""Puts one job on nodes, in the style that suits it.

`place` finds nodes whenever there are any ("not now" otherwise). `possible` asks the same of the empty cluster ("never").
O(nodes log nodes) a job in the worst case, O(nodes of the job x log nodes) for one that fits on one node or may spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tiresias.scheduler import baselines, consolidate, spread
from tiresias.scheduler.model import Bools, Ints, Nodes, Request, Style
from tiresias.scheduler.space import Kind, Placement, Space

_Uneven = Callable[[Request, int, Ints, Sequence[Ints]], Placement | None]
_UNEVEN: Mapping[Style, _Uneven] = {
    Style.CONSOLIDATE: consolidate.uneven, Style.SPREAD: spread.uneven, Style.FIRST_FIT: baselines.first_fit,
    Style.LOAD_BALANCING: baselines.load_balancing, Style.RANDOM: baselines.random,
    Style.APART: consolidate.apart,
}  # fmt: skip
_ON_ONE_NODE = (
    Style.CONSOLIDATE,
    Style.SPREAD,
)  # a GPU, or for the former a job, that fits on one goes where it is tightest


class Placer:
    """Knows the nodes, and keeps what it has found out about requests."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._groups = (nodes.leaf, *nodes.above)
        self._kinds: dict[tuple[Request, int, bool], Kind] = {}
        self._empty: dict[tuple[Request, int], Placement | None] = {}

    def kind(self, request: Request, style: int = Style.CONSOLIDATE, packed: bool = False) -> Kind:
        """packed: on as few nodes as it could ever have, or not at all."""
        kind = self._kinds.get((request, style, packed))
        if kind is None:
            allowed = self._described(request) & self._nodes.usable
            kind = self._kinds[request, style, packed] = Kind(request, allowed, Style(style), packed)
        return kind

    def place(self, kind: Kind, gpus: int, space: Space) -> Placement | None:
        """Nodes in `space` for a job, or None: not now."""
        found = self._place(kind, gpus, space)
        if found and kind.packed and len(found) > self.fewest(kind, gpus):
            return None
        return found

    def _place(self, kind: Kind, gpus: int, space: Space) -> Placement | None:
        offer, request = space.offer(kind), kind.request
        if not request.gpus_per_node and request.min_nodes <= 1 and kind.style in _ON_ONE_NODE:
            if kind.style is Style.SPREAD and not request.max_nodes:
                return offer.fragments(gpus)
            if kind.style is Style.CONSOLIDATE and (node := offer.tightest(gpus)) is not None:
                return ((node, gpus),)
        return self._several(kind, gpus, offer.fit)

    def _several(self, kind: Kind, gpus: int, fit: Ints) -> Placement | None:
        """`fit`: GPUs that each node can give."""
        if kind.request.gpus_per_node:
            return _equal(kind, gpus, fit, self._groups)
        found = _UNEVEN[kind.style](kind.request, gpus, fit, self._groups)
        if found is None and kind.style not in _ON_ONE_NODE:
            return consolidate.uneven(
                kind.request, gpus, fit, self._groups
            )  # what these find may be too few or too many nodes
        return found

    def possible(self, kind: Kind, gpus: int) -> bool:
        """Whether such a job could run on the empty cluster with every node up. CPUs and memory are left out: how much of
        them other jobs hold is not known here."""
        return self._on_empty(kind.request, gpus) is not None

    def fewest(self, kind: Kind, gpus: int) -> int:
        """Nodes that it takes on the empty cluster."""
        found = self._on_empty(kind.request, gpus)
        return len(found) if found else len(self._nodes)

    def largest(self, kind: Kind) -> int:
        """GPUs of the largest node that it may use."""
        return int(np.max(self._nodes.gpus[kind.allowed], initial=0))

    def _on_empty(self, request: Request, gpus: int) -> Placement | None:
        if (request, gpus) not in self._empty:
            fit = np.where(self._described(request), self._nodes.gpus, 0)
            self._empty[request, gpus] = self._several(Kind(request, fit > 0), gpus, fit)
        return self._empty[request, gpus]

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


def _equal(kind: Kind, gpus: int, fit: Ints, groups: Sequence[Ints]) -> Placement | None:
    """The same number of GPUs on each node."""
    request = kind.request
    count, rest = divmod(gpus, request.gpus_per_node)
    allowed = request.min_nodes <= count <= (request.max_nodes or count)
    if rest or not allowed or np.count_nonzero(fit >= request.gpus_per_node) < count:
        return None
    chosen = (spread if kind.style is Style.SPREAD else consolidate).equal(request, count, fit, groups)
    return tuple((int(node), request.gpus_per_node) for node in np.sort(chosen))
