"""Places one job on nodes, in its placement style.

`place` finds nodes whenever the job fits; otherwise the job waits. `possible` answers the same for the empty cluster; a job that
does not fit there can never run. Cost: O(log nodes) for a job that fits on one node, times its nodes for one that may spread;
O(groups + nodes of the chosen groups) for one that is consolidated on several nodes; O(nodes) for all others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from tiresias.scheduler.interference_table import UNKNOWN_KIND
from tiresias.scheduler.model import Bools, Floats, Nodes, Request, Snapshot, Style
from tiresias.scheduler.place import consolidate, spread
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.place.equal_shares import on_equal_shares
from tiresias.scheduler.place.free_capacity import FreeCapacity, NodeDemand, PlacementRequest
from tiresias.scheduler.place.near_donors import near_donors
from tiresias.scheduler.place.placement_context import PlacementContext, Surroundings
from tiresias.scheduler.place.placements import PLACEMENTS, Place, style_name, uses_context
from tiresias.scheduler.place.speed_needs import ALL_ALIKE, SpeedNeeds

_CandidatesOf = Callable[[PlacementRequest], CandidateNodes]
_Place = Callable[[PlacementRequest, int], Placement | None]
# A GPU, or for the former a job, that fits on one goes where it is tightest.
_APART = int(Style.APART)  # compares faster
_ON_ONE_NODE = (Style.CONSOLIDATE, Style.SPREAD)


class Placer:
    """Places jobs on the nodes of one snapshot, and caches what it computes about requests.

    Attributes:
        surroundings: The jobs beside which jobs are placed.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes, self.surroundings = snapshot.nodes, Surroundings(snapshot)
        self._demands: dict[Request, NodeDemand] = {}
        self._kinds: dict[tuple[Request, int, bool, int, SpeedNeeds], PlacementRequest] = {}
        self._empty: dict[tuple[PlacementRequest, int], Placement | None] = {}
        self._all: dict[NodeDemand, CandidateNodes] = {}
        self._on_part: dict[tuple[PlacementRequest, bytes], PlacementRequest] = {}

    def kind(
        self, request: Request, style: int = Style.CONSOLIDATE, packed: bool = False, job_kind: int = UNKNOWN_KIND,
        speed: SpeedNeeds = ALL_ALIKE,
    ) -> PlacementRequest:  # fmt: skip
        """Return the request with its style. packed: the job accepts only the fewest nodes possible on the empty cluster; job_kind:
        a row of the table of interference; speed: what it needs of the speed of its nodes."""
        key = (request, style, packed, job_kind, speed)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = PlacementRequest(request, self._demand(request), style, packed, job_kind, speed)
        return kind

    def _demand(self, request: Request) -> NodeDemand:
        counted = request.min_nodes or request.max_nodes or request.gpus_per_node
        alike = replace(request, min_nodes=0, max_nodes=0, gpus_per_node=0) if counted else request
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
        """Return free capacity with the islands of these nodes. amount: shape (nodes, columns)."""
        return FreeCapacity(amount, self._nodes.topology)

    def place(self, kind: PlacementRequest, gpus: int, space: FreeCapacity) -> Placement | None:
        """Return a placement for a job within `space`, if possible on nodes that are no last resort; None: it does not fit now."""
        if kind.request.remote_memory and self._nodes.lendable is not None:
            return near_donors(self._nodes, kind, space, lambda rows: self._on_rows(kind, gpus, space, rows))
        return self._on_rows(kind, gpus, space, None)

    def _on_rows(self, kind: PlacementRequest, gpus: int, space: FreeCapacity, rows: Bools | None) -> Placement | None:
        """Return a placement on these nodes, shape (nodes,); None: on all."""
        kind = kind if rows is None else self._narrowed(kind, rows)
        last_resort = self._nodes.last_resort
        if last_resort is None or kind.request.nodes:
            return self._placed(kind, gpus, space)
        return self._placed(self._narrowed(kind, ~last_resort), gpus, space) or self._placed(kind, gpus, space)

    def _narrowed(self, kind: PlacementRequest, rows: Bools) -> PlacementRequest:
        """Return the request for a part of its nodes. rows: shape (nodes,)."""
        key = kind, rows.tobytes()
        found = self._on_part.get(key)
        if found is None:
            every = kind.demand
            demand = NodeDemand(kind.request, every.described, every.allowed & rows, every.groups, every.islands)
            found = self._on_part[key] = PlacementRequest(
                kind.request, demand, kind.style, kind.packed, kind.job_kind, kind.speed
            )
        return found

    def _placed(self, kind: PlacementRequest, gpus: int, space: FreeCapacity) -> Placement | None:
        candidates = space.candidates(kind)
        if kind.style > _APART:  # the others use nothing of it
            candidates.context = PlacementContext(kind, space, self.surroundings)
        found = self._place(kind, gpus, candidates)
        if found is None and kind.request.nodes:
            found = self._beyond(kind, gpus, space.candidates, lambda rest, left: self.place(rest, left, space))
        if found and kind.packed and len(found) > self.fewest(kind, gpus):
            return None
        return found

    def _place(self, kind: PlacementRequest, gpus: int, candidates: CandidateNodes) -> Placement | None:
        request = kind.request
        if not request.gpus_per_node and request.min_nodes <= 1 and kind.style in _ON_ONE_NODE:
            if kind.style == Style.SPREAD and not request.max_nodes:
                return candidates.fragments(gpus)
            on_one = kind.style == Style.CONSOLIDATE or request.max_nodes == 1
            if on_one and (node := candidates.tightest(gpus)) is not None:
                return ((node, gpus),)
        return _several(request, kind.style, gpus, candidates)

    def _beyond(
        self, kind: PlacementRequest, gpus: int, candidates_of: _CandidatesOf, place: _Place
    ) -> Placement | None:
        """Place a job on all required nodes (-w) and on others: Slurm adds nodes where the required ones are too few."""
        request, fit = kind.request, candidates_of(kind).fit
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
        found = (
            place(
                self.kind(rest, kind.style, job_kind=kind.job_kind, speed=kind.speed),
                gpus - sum(share for _, share in parts),
            )
            if parts
            else None
        )
        return tuple(sorted([*parts, *found])) if found else None

    def _without(self, request: Request, count: int) -> Request:
        """Return what remains to be placed once the `count` required nodes have their share."""
        least, most = max(request.min_nodes - count, 0), max(request.max_nodes - count, 0)
        nodes: frozenset[str] = frozenset()
        return replace(request, min_nodes=least, max_nodes=most, nodes=nodes, excluded=request.excluded | request.nodes)

    def possible(self, kind: PlacementRequest, gpus: int) -> bool:
        """Return whether such a job could run on the empty cluster with every node up. CPUs and memory do not count: the total
        of them is not known here."""
        return self._on_empty(kind, gpus) is not None

    def fewest(self, kind: PlacementRequest, gpus: int) -> int:
        """Return the number of nodes that the job takes on the empty cluster."""
        found = self._on_empty(kind, gpus)
        return len(found) if found else len(self._nodes)

    def largest(self, kind: PlacementRequest) -> int:
        """Return the GPUs of the largest node that the request may use."""
        return int(np.max(self._candidates_on_empty(kind).fit[kind.demand.allowed], initial=0))

    def _on_empty(self, kind: PlacementRequest, gpus: int) -> Placement | None:
        if (kind, gpus) not in self._empty:
            found = _several(kind.request, Style.CONSOLIDATE, gpus, self._candidates_on_empty(kind))
            if found is None and kind.request.nodes:
                found = self._beyond(kind, gpus, self._candidates_on_empty, self._on_empty)
            self._empty[kind, gpus] = found
        return self._empty[kind, gpus]

    def _candidates_on_empty(self, kind: PlacementRequest) -> CandidateNodes:
        demand = kind.demand
        if demand not in self._all:
            fit = np.where(demand.described, self._nodes.gpus, 0)
            for node, at in demand.islands.items():
                fit[node] = min(fit[node], self._nodes.topology.part_sizes(node)[at])
            self._all[demand] = CandidateNodes(fit, demand.groups)
        return self._all[demand]

    def _of_type(self, gpu_type: str) -> dict[int, int]:
        """Return the nodes of which one island has this GPU type and the others do not, with the index of the island."""
        if not self._nodes.topology.parts:
            return {}
        islands = self._nodes.topology.islands
        return {
            node: types.split(",").index(gpu_type)
            for node, types in enumerate(self._nodes.gpu_type)
            if "," in types and gpu_type in types.split(",") and types.count(",") + 1 == islands(node)
        }

    def _described(self, request: Request) -> Bools:
        """Return the nodes that the request names or describes, up or down; shape (nodes,)."""
        fitting = np.ones(len(self._nodes), bool)
        for test in _tests(request, self._nodes):
            fitting &= np.fromiter(test, bool, len(self._nodes))
        return fitting


def _several(request: Request, style: int, gpus: int, candidates: CandidateNodes) -> Placement | None:
    if _is_complete(style):
        found = _place_of(style)(request, gpus, candidates)
        return found or _several(request, Style.CONSOLIDATE, gpus, candidates)  # a job that fits starts
    if request.gpus_per_node:
        choose = (spread if style == Style.SPREAD else consolidate).equal
        return on_equal_shares(request, gpus, candidates, choose)
    found = _place_of(style)(request, gpus, candidates)
    if found is None and style not in _ON_ONE_NODE:
        return consolidate.uneven(request, gpus, candidates)  # what these find may be too few or too many nodes
    return found


@functools.cache
def _place_of(style: int) -> Place:
    return PLACEMENTS[style_name(style)]


@functools.cache
def _is_complete(style: int) -> bool:
    """Return whether a style places jobs with the same number of GPUs on each node, too."""
    return uses_context(style_name(style))


def _tests(request: Request, nodes: Nodes) -> Iterator[Iterable[bool]]:
    if request.gpu_type:
        yield (request.gpu_type in types.split(",") for types in nodes.gpu_type)
    if request.features:
        yield map(request.features.issubset, nodes.features)
    if request.nodes:
        yield map(request.nodes.__contains__, nodes.name)
    if request.excluded:
        yield (name not in request.excluded for name in nodes.name)
