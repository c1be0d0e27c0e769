"""What may be used on each node, and what that means for jobs of one kind.

A `FreeCapacity` is read and shrunk thousands of times in one decision. Whole arrays are counted by numpy; one node is looked at and
changed through a view of the same memory, because numpy takes longer for one number than Python for the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from tiresias.scheduler.elementwise import Values, larger, smaller, where, whole
from tiresias.scheduler.model import Bools, Floats, Ints, Nodes, Request, Snapshot, Style
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement, few
from tiresias.scheduler.place.gpu_islands import Islands
from tiresias.scheduler.resources import COLUMNS
from tiresias.scheduler.topology_tree import Topology

COUNTED = len(COLUMNS)  # the columns of which a job takes a known amount; then those of islands, where any are known
GPUS, CPUS, MEMORY = range(COUNTED)

_ROUNDING = 1e-9


class NodeDemand:
    """The part of a request that tells how many GPUs a node can give to it. One object for each such part: compared by identity.

    described: nodes that it names or describes, up or down; allowed: those of them on which it may start now; shape (nodes,).
    groups: of the nodes, as of `CandidateNodes`.
    islands: the rows of nodes of which it may use the GPUs of one island only, and which.
    """

    def __init__(
        self, request: Request, described: Bools, open_now: Bools, groups: Sequence[Ints], islands: Mapping[int, int]
    ) -> None:
        self.described, self.groups, self.islands = described, groups, islands
        self.allowed = described & open_now
        self._may_use = self.allowed.data
        self._request = request

    def offer(self, amount: Floats, islands: Islands | None = None) -> CandidateNodes:
        """amount: shape (nodes, columns)."""
        gpus, cpus, memory = amount.T[:COUNTED]
        if self.islands:
            rows, at = list(self.islands), list(self.islands.values())
            gpus = gpus.copy()
            gpus[rows] = np.minimum(gpus[rows], amount[rows, np.add(at, COUNTED)])
        fit = np.where(self.allowed, self._fit(gpus, cpus, memory), 0.0)
        return CandidateNodes(fit.astype(np.int64), self.groups, islands)

    def fit(self, node: int, columns: Sequence[memoryview[float]]) -> int:
        """GPUs that one node can give. columns: of all nodes."""
        gpus = columns[GPUS][node]
        if node in self.islands:
            gpus = min(gpus, columns[COUNTED + self.islands[node]][node])
        return (
            int(self._fit(gpus, columns[CPUS][node], columns[MEMORY][node])) if gpus >= 1 and self._may_use[node] else 0
        )

    def _fit(self, gpus: Values, cpus: Values, memory: Values) -> Values:
        asked, fit = self._request, gpus
        if asked.cpus_per_gpu:
            fit = smaller(fit, cpus / asked.cpus_per_gpu)
        if asked.memory_per_node:
            fit = where(memory + _ROUNDING >= asked.memory_per_node, fit, 0.0)
        elif asked.memory_per_gpu:
            fit = smaller(fit, memory / asked.memory_per_gpu)
        return whole(larger(fit, 0.0) + _ROUNDING)


class PlacementRequest:
    """A request and how it is to be placed. packed: on as few nodes as it could ever have. One object for each such: compared by
    identity."""

    def __init__(
        self, request: Request, demand: NodeDemand, style: int = Style.CONSOLIDATE, packed: bool = False
    ) -> None:
        self.request, self.demand, self.style, self.packed = request, demand, style, packed
        self._amounts: dict[int, tuple[float, float, float]] = {}

    def amounts(self, gpus: int) -> tuple[float, float, float]:
        """What a job takes of a node on which it has so many GPUs."""
        found = self._amounts.get(gpus)
        if found is None:
            found = self._amounts[gpus] = amounts(self.request, gpus)
        return found


def amounts(request: Request, gpus: int) -> tuple[float, float, float]:
    return float(gpus), request.cpus_per_gpu * gpus, request.memory_per_node or request.memory_per_gpu * gpus


class FreeCapacity:
    """amount: shape (nodes, columns); change it through the methods only. topology: with the islands of the nodes; None: none
    are counted."""

    def __init__(self, amount: Floats, topology: Topology | None = None) -> None:
        self.amount = amount
        self._columns = [cast("memoryview[float]", column.data) for column in amount.T]
        self._islands = Islands(topology, self._columns[COUNTED:]) if topology and topology.parts else None
        self._changed: list[int] = []
        self._offers: dict[NodeDemand, tuple[CandidateNodes, int]] = {}  # and how many of the changes it knows

    def take(self, kind: PlacementRequest, placement: Placement) -> None:
        gpus, cpus, memory = self._columns[:COUNTED]
        for node, count in placement:
            amount = kind.amounts(count)
            gpus[node] -= amount[GPUS]
            cpus[node] -= amount[CPUS]
            memory[node] -= amount[MEMORY]
            if self._islands:
                self._islands.take(node, count, kind.demand.islands.get(node))
            self._changed.append(node)

    def limit(self, other: FreeCapacity, nodes: Sequence[int]) -> None:
        """Not more than `other` has there."""
        for node in nodes:
            for mine, theirs in zip(self._columns, other._columns, strict=True):
                mine[node] = min(mine[node], theirs[node])
        self._changed += nodes

    def add(self, amount: Floats) -> None:
        """amount: shape (nodes, columns)."""
        self.amount += amount
        self._changed += np.flatnonzero(amount.any(axis=1)).tolist()

    def offer(self, kind: PlacementRequest) -> CandidateNodes:
        """Brought up to date: O(nodes changed since it was asked for last), at most O(nodes)."""
        demand = kind.demand
        offer, known = self._offers.get(demand, (None, 0))
        if offer is None or known < len(self._changed):
            offer = self._offered(demand, offer, set(self._changed[known:]))
            self._offers[demand] = offer, len(self._changed)
        return offer

    def _offered(self, demand: NodeDemand, offer: CandidateNodes | None, changed: set[int]) -> CandidateNodes:
        if offer is None or len(changed) > few(len(self.amount)):
            return demand.offer(self.amount, self._islands)
        for node in changed:
            offer.update(node, demand.fit(node, self._columns))
        return offer


def free(nodes: Nodes) -> Floats:
    """What is free on each node where jobs may start; shape (nodes, columns)."""
    return np.where(nodes.usable[:, None], nodes.free.amount, 0.0)


class Holdings:
    """The allocations of managed jobs, on nodes that may be used again: what sits on a drained node frees nothing."""

    def __init__(self, snapshot: Snapshot) -> None:
        held = snapshot.allocations
        order = np.argsort(held.job, kind="stable")
        order = order[snapshot.nodes.usable[held.node[order]]]
        self._job = held.job[order]
        self.node: Ints = held.node[order]
        self.amount: Floats = held.resources.amount[order]
        self._first = np.searchsorted(self._job, np.arange(len(snapshot.jobs) + 1))
        self._nodes = len(snapshot.nodes)

    def of(self, row: int) -> slice:
        """The entries of one job in `node` and `amount`."""
        return slice(int(self._first[row]), int(self._first[row + 1]))

    def gpus(self) -> Ints:
        """What each job would free; shape (jobs,)."""
        return np.bincount(self._job, self.amount[:, GPUS], len(self._first) - 1).astype(np.int64)

    def on_nodes(self, rows: Ints) -> Floats:
        """What those jobs hold together; shape (nodes, columns)."""
        chosen = np.zeros(len(self._first) - 1, bool)
        chosen[rows] = True
        mine = chosen[self._job]
        node, amount = self.node[mine], self.amount[mine]
        return np.stack([np.bincount(node, column, self._nodes) for column in amount.T], axis=1)

    def sitting_on(self, nodes: Sequence[int]) -> Ints:
        """Rows of the jobs that hold something there."""
        return np.unique(self._job[np.isin(self.node, nodes)])


@dataclass(slots=True, eq=False)
class ClusterCapacity:
    """now: held by nobody. later: also what leaving jobs and those that are to be preempted will free. What is promised to
    somebody is taken from both, so `now` never exceeds `later`."""

    now: FreeCapacity
    later: FreeCapacity

    def start(self, kind: PlacementRequest, placement: Placement) -> None:
        self.now.take(kind, placement)
        self.later.take(kind, placement)

    def reserve(self, kind: PlacementRequest, placement: Placement) -> None:
        self.later.take(kind, placement)
        self.now.limit(self.later, [node for node, _ in placement])
