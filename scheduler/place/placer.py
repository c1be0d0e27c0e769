"""Puts one job on nodes, in the style that suits it.

`place` finds nodes whenever there are any ("not now" otherwise). `possible` asks the same of the empty cluster ("never").
O(log nodes) a job that fits on one node, times its nodes for one that may spread; O(groups + nodes of the chosen ones) for one
that is consolidated on several; O(nodes) for all others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Nodes, Request, Style
from tiresias.scheduler.place import consolidate, spread
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.place.free_capacity import FreeCapacity, NodeDemand, PlacementRequest
from tiresias.scheduler.place.placements import PLACEMENTS, PLUGIN_CODES, Place, style_name

_Offered = Callable[[PlacementRequest], CandidateNodes]
_Place = Callable[[PlacementRequest, int], Placement | None]
# A GPU, or for the former a job, that fits on one goes where it is tightest.
_ON_ONE_NODE = (Style.CONSOLIDATE, Style.SPREAD)


class Placer:
    """Knows the nodes, and keeps what it has found out about requests."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._demands: dict[Request, NodeDemand] = {}
        self._kinds: dict[tuple[Request, int, bool], PlacementRequest] = {}
        self._empty: dict[tuple[PlacementRequest, int], Placement | None] = {}
        self._all: dict[NodeDemand, CandidateNodes] = {}

    def kind(self, request: Request, style: int = Style.CONSOLIDATE, packed: bool = False) -> PlacementRequest:
        """packed: on as few nodes as it could ever have, or not at all."""
        kind = self._kinds.get((request, style, packed))
        if kind is None:
            kind = self._kinds[request, style, packed] = PlacementRequest(
                request, self._demand(request), Style(style) if style < PLUGIN_CODES else style, packed
            )
        return kind

    def _demand(self, request: Request) -> NodeDemand:
        alike = replace(request, min_nodes=0, max_nodes=0, gpus_per_node=0)
        demand = self._demands.get(alike)
        if demand is None:
            groups = self._nodes.topology.nearest_groups
            demand = self._demands[alike] = NodeDemand(
                alike, self._described(alike), self._open(alike), groups, self._of_type(alike.gpu_type)
            )
        return demand

    def _open(self, request: Request) -> Bools:
        """Nodes that are up and not closed to the request; shape (nodes,)."""
        if not request.closed:
            return self._nodes.usable
        closed = np.fromiter(map(request.closed.__contains__, self._nodes.name), bool, len(self._nodes))
        found: Bools = self._nodes.usable & ~closed
        return found

    def space(self, amount: Floats) -> FreeCapacity:
        """amount: shape (nodes, columns)."""
        return FreeCapacity(amount, self._nodes.topology)

    def place(self, kind: PlacementRequest, gpus: int, space: FreeCapacity) -> Placement | None:
        """Nodes in `space` for a job, or None: not now."""
        found = self._place(kind, gpus, space.offer(kind))
        if found is None and kind.request.nodes:
            found = self._beyond(kind, gpus, space.offer, lambda rest, left: self.place(rest, left, space))
        if found and kind.packed and len(found) > self.fewest(kind, gpus):
            return None
        return found

    def _place(self, kind: PlacementRequest, gpus: int, offer: CandidateNodes) -> Placement | None:
        request = kind.request
        if not request.gpus_per_node and request.min_nodes <= 1 and kind.style in _ON_ONE_NODE:
            if kind.style is Style.SPREAD and not request.max_nodes:
                return offer.fragments(gpus)
            on_one = kind.style is Style.CONSOLIDATE or request.max_nodes == 1
            if on_one and (node := offer.tightest(gpus)) is not None:
                return ((node, gpus),)
        return _several(request, kind.style, gpus, offer)

    def _beyond(self, kind: PlacementRequest, gpus: int, offered: _Offered, place: _Place) -> Placement | None:
        """On all required nodes (-w) and on others: where these are fewer than the request needs, Slurm adds some."""
        request, fit = kind.request, offered(kind).fit
        rows = [row for row, name in enumerate(self._nodes.name) if name in request.nodes]
        if len(rows) > max(request.min_nodes, 1):  # then Slurm takes some of these (from 23.02 on)
            return None
        parts, left = [], gpus - max(request.min_nodes - len(rows), 1)
        for after, row in zip(range(len(rows) - 1, -1, -1), rows, strict=True):
            share = request.gpus_per_node or min(int(fit[row]), left - after)
            if share < 1 or share > fit[row] or (request.max_nodes and len(rows) >= request.max_nodes):
                return None
            parts.append((row, share))
            left -= share
        rest = self._without(request, len(rows))
        found = place(self.kind(rest, kind.style), gpus - sum(share for _, share in parts)) if parts else None
        return tuple(sorted([*parts, *found])) if found else None

    def _without(self, request: Request, count: int) -> Request:
        """What is left to place when the `count` required nodes have their share."""
        least, most = max(request.min_nodes - count, 0), max(request.max_nodes - count, 0)
        nodes: frozenset[str] = frozenset()
        return replace(request, min_nodes=least, max_nodes=most, nodes=nodes, excluded=request.excluded | request.nodes)

    def possible(self, kind: PlacementRequest, gpus: int) -> bool:
        """Whether such a job could run on the empty cluster with every node up. CPUs and memory are left out: how much of
        them other jobs hold is not known here."""
        return self._on_empty(kind, gpus) is not None

    def fewest(self, kind: PlacementRequest, gpus: int) -> int:
        """Nodes that it takes on the empty cluster."""
        found = self._on_empty(kind, gpus)
        return len(found) if found else len(self._nodes)

    def largest(self, kind: PlacementRequest) -> int:
        """GPUs of the largest node that it may use."""
        return int(np.max(self._nodes.gpus[kind.demand.allowed], initial=0))

    def _on_empty(self, kind: PlacementRequest, gpus: int) -> Placement | None:
        if (kind, gpus) not in self._empty:
            found = _several(kind.request, Style.CONSOLIDATE, gpus, self._offer_on_empty(kind))
            if found is None and kind.request.nodes:
                found = self._beyond(kind, gpus, self._offer_on_empty, self._on_empty)
            self._empty[kind, gpus] = found
        return self._empty[kind, gpus]

    def _offer_on_empty(self, kind: PlacementRequest) -> CandidateNodes:
        demand = kind.demand
        if demand not in self._all:
            fit = np.where(demand.described, self._nodes.gpus, 0)
            for node in demand.islands:
                fit[node] //= self._nodes.topology.islands(node)
            self._all[demand] = CandidateNodes(fit, demand.groups)
        return self._all[demand]

    def _of_type(self, gpu_type: str) -> dict[int, int]:
        """The nodes of which one island is of that type and the others are not, and which it is."""
        islands = self._nodes.topology.islands
        return {
            node: types.split(",").index(gpu_type)
            for node, types in enumerate(self._nodes.gpu_type)
            if "," in types and gpu_type in types.split(",") and types.count(",") + 1 == islands(node)
        }

    def _described(self, request: Request) -> Bools:
        """Nodes that the request names or describes, up or down; shape (nodes,)."""
        fitting = np.ones(len(self._nodes), bool)
        for test in _tests(request, self._nodes):
            fitting &= np.fromiter(test, bool, len(self._nodes))
        return fitting


def _several(request: Request, style: int, gpus: int, offer: CandidateNodes) -> Placement | None:
    if style >= PLUGIN_CODES:
        found = _place_of(style)(request, gpus, offer)
        return found or _several(request, Style.CONSOLIDATE, gpus, offer)  # a job that fits starts
    if request.gpus_per_node:
        return _equal(request, style, gpus, offer)
    found = _place_of(style)(request, gpus, offer)
    if found is None and style not in _ON_ONE_NODE:
        return consolidate.uneven(request, gpus, offer)  # what these find may be too few or too many nodes
    return found


@functools.cache
def _place_of(style: int) -> Place:
    return PLACEMENTS[style_name(style)]


def _equal(request: Request, style: int, gpus: int, offer: CandidateNodes) -> Placement | None:
    """The same number of GPUs on each node."""
    each = request.gpus_per_node
    count, rest = divmod(gpus, each)
    allowed = request.min_nodes <= count <= (request.max_nodes or count)
    if rest or not allowed or np.count_nonzero(offer.fit >= each) < count:
        return None
    chosen = (spread if style is Style.SPREAD else consolidate).equal(request, count, offer)
    return tuple((node, each) for node in np.sort(chosen).tolist())


def _tests(request: Request, nodes: Nodes) -> Iterator[Iterable[bool]]:
    if request.gpu_type:
        yield (request.gpu_type in types.split(",") for types in nodes.gpu_type)
    if request.features:
        yield map(request.features.issubset, nodes.features)
    if request.nodes:
        yield map(request.nodes.__contains__, nodes.name)
    if request.excluded:
        yield (name not in request.excluded for name in nodes.name)
