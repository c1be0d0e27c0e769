"""The free resources of each node, and the GPUs that these mean for jobs with equal demands.

A `FreeCapacity` is read and reduced thousands of times in one decision. numpy computes whole arrays; a single node is read and
changed through a view of the same memory, because for one number numpy is slower than Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from tiresias.scheduler.elementwise import Values, larger, smaller, where, whole
from tiresias.scheduler.interference_table import UNKNOWN_KIND
from tiresias.scheduler.model import Bools, Floats, Ints, Nodes, Request, Snapshot, Style
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement, few
from tiresias.scheduler.place.gpu_islands import Islands
from tiresias.scheduler.place.speed_needs import ALL_ALIKE, SpeedNeeds
from tiresias.scheduler.resources import COLUMNS
from tiresias.scheduler.stable_order import stable_order
from tiresias.scheduler.topology_tree import Topology

COUNTED = len(COLUMNS)  # the columns of which a job takes a known amount; then those of islands, where any are known
GPUS, CPUS, MEMORY = range(COUNTED)

_ROUNDING = 1e-9


class NodeDemand:
    """The part of a request that determines how many GPUs of a node it can use. Compared by identity: one object for each.

    Attributes:
        described: Nodes that the request names or describes, up or down, shape (nodes,).
        allowed: Those of them on which the job may start now, shape (nodes,).
        groups: Groups of the nodes, as of `CandidateNodes`.
        islands: For nodes of which it may use the GPUs of one island only: the row, and the index of the island.
    """

    def __init__(
        self, request: Request, described: Bools, open_now: Bools, groups: Sequence[Ints], islands: Mapping[int, int]
    ) -> None:
        self.described, self.groups, self.islands = described, groups, islands
        self.allowed = described & open_now
        self._may_use = self.allowed.data
        self._request = request

    def candidates(self, amount: Floats, islands: Islands | None = None) -> CandidateNodes:
        """Return the nodes for such jobs. amount: free resources, shape (nodes, columns)."""
        gpus, cpus, memory = amount.T[:COUNTED]
        if self.islands:
            rows, at = list(self.islands), list(self.islands.values())
            gpus = gpus.copy()
            gpus[rows] = np.minimum(gpus[rows], amount[rows, np.add(at, COUNTED)])
        fit = np.where(self.allowed, self._fit(gpus, cpus, memory), 0.0)
        return CandidateNodes(fit.astype(np.int64), self.groups, islands)

    def fit(self, node: int, columns: Sequence[memoryview[float]]) -> int:
        """Return the GPUs that one node has free for such jobs. columns: the free resources of all nodes."""
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
    """A request with its placement style. Compared by identity: one object for each.

    Attributes:
        request: The request.
        demand: What it needs of each node.
        style: The code of its style of placement.
        packed: It accepts only the fewest nodes that are possible on the empty cluster.
        job_kind: The job's kind, a row of the table of interference; UNKNOWN_KIND: nothing is expected of it.
        speed: What the job needs of the speed of its nodes.
    """

    def __init__(
        self, request: Request, demand: NodeDemand, style: int = Style.CONSOLIDATE, packed: bool = False,
        job_kind: int = UNKNOWN_KIND, speed: SpeedNeeds = ALL_ALIKE,
    ) -> None:  # fmt: skip
        self.request, self.demand, self.style, self.packed, self.job_kind = request, demand, style, packed, job_kind
        self.speed = speed
        self._amounts: dict[int, tuple[float, float, float]] = {}

    def amounts(self, gpus: int) -> tuple[float, float, float]:
        """Return the resources that a job takes of a node on which it has so many GPUs."""
        found = self._amounts.get(gpus)
        if found is None:
            found = self._amounts[gpus] = amounts(self.request, gpus)
        return found


def amounts(request: Request, gpus: int) -> tuple[float, float, float]:
    """Return the GPUs, CPUs and memory (MiB) of a node that a request takes with so many GPUs there."""
    return float(gpus), request.cpus_per_gpu * gpus, request.memory_per_node or request.memory_per_gpu * gpus


class FreeCapacity:
    """The free resources of all nodes.

    Attributes:
        amount: Shape (nodes, columns); changed by the methods only.
        started: Node and kind of each job that took something and has a kind.
        on_several: The placements that took something of several nodes.
        remote: The placements that use remote memory, with the MiB of each.
    """

    def __init__(self, amount: Floats, topology: Topology | None = None) -> None:
        """topology: of the nodes; None: islands are not counted."""
        self.amount = amount
        self._columns = [cast("memoryview[float]", column.data) for column in amount.T]
        self._islands = Islands(topology, self._columns[COUNTED:]) if topology and topology.parts else None
        self.started: list[tuple[int, int]] = []
        self.on_several: list[Placement] = []
        self.remote: list[tuple[Placement, float]] = []
        self._changed: list[int] = []
        self._candidates: dict[NodeDemand, tuple[CandidateNodes, int]] = {}  # and how many changes it contains

    def take(self, kind: PlacementRequest, placement: Placement) -> None:
        """Remove what a placement takes."""
        gpus, cpus, memory = self._columns[:COUNTED]
        for node, count in placement:
            amount = kind.amounts(count)
            gpus[node] -= amount[GPUS]
            cpus[node] -= amount[CPUS]
            memory[node] -= amount[MEMORY]
            if self._islands:
                self._islands.take(node, count, kind.demand.islands.get(node))
            self._changed.append(node)
        if len(placement) > 1:
            self.on_several.append(placement)
        if kind.request.remote_memory:
            self.remote.append((placement, kind.request.remote_memory))
        if kind.job_kind != UNKNOWN_KIND:
            self.started += [(node, kind.job_kind) for node, _ in placement]

    @property
    def changes(self) -> list[int]:
        """The nodes that changed, one entry for each change. Not to be changed."""
        return self._changed

    def limit(self, other: FreeCapacity, nodes: Sequence[int]) -> None:
        """Reduce these nodes to what `other` has there."""
        for node in nodes:
            for column, limit in zip(self._columns, other._columns, strict=True):
                column[node] = min(column[node], limit[node])
        self._changed += nodes

    def add(self, amount: Floats) -> None:
        """Add resources. amount: shape (nodes, columns)."""
        self.amount += amount
        self._changed += np.flatnonzero(amount.any(axis=1)).tolist()

    def candidates(self, kind: PlacementRequest) -> CandidateNodes:
        """Return the nodes for such a request, up to date: O(nodes changed since the last call), at most O(nodes)."""
        demand = kind.demand
        found, known = self._candidates.get(demand, (None, 0))
        if found is None or known < len(self._changed):
            found = self._updated(demand, found, set(self._changed[known:]))
            self._candidates[demand] = found, len(self._changed)
        return found

    def _updated(self, demand: NodeDemand, found: CandidateNodes | None, changed: set[int]) -> CandidateNodes:
        if found is None or len(changed) > few(len(self.amount)):
            return demand.candidates(self.amount, self._islands)
        for node in changed:
            found.update(node, demand.fit(node, self._columns))
        return found


def free(nodes: Nodes) -> Floats:
    """Return what is free on each node where jobs may start, shape (nodes, columns)."""
    return np.where(nodes.usable[:, None], nodes.free.amount, 0.0)


class Holdings:
    """The allocations of managed jobs on usable nodes: the end of a job on a drained node frees nothing.

    Attributes:
        node: Row of the node of each allocation, sorted by job.
        amount: Resources of each allocation, shape (allocations, columns).
    """

    def __init__(self, snapshot: Snapshot) -> None:
        held = snapshot.allocations
        order = stable_order(held.job)
        order = order[snapshot.nodes.usable[held.node[order]]]
        self._job = held.job[order]
        self.node: Ints = held.node[order]
        self.amount: Floats = held.resources.amount[order]
        self._first = np.zeros(len(snapshot.jobs) + 1, np.int64)
        np.cumsum(np.bincount(self._job, minlength=len(snapshot.jobs)), out=self._first[1:])
        self._nodes = len(snapshot.nodes)

    def of(self, row: int) -> slice:
        """Return the allocations of one job: a range of `node` and `amount`."""
        return slice(int(self._first[row]), int(self._first[row + 1]))

    def gpus(self) -> Ints:
        """Return the GPUs that the end of each job would free, shape (jobs,)."""
        return np.bincount(self._job, self.amount[:, GPUS], len(self._first) - 1).astype(np.int64)

    def on_nodes(self, rows: Ints) -> Floats:
        """Return what these jobs hold together, shape (nodes, columns)."""
        chosen = np.zeros(len(self._first) - 1, bool)
        chosen[rows] = True
        mine = chosen[self._job]
        node, amount = self.node[mine], self.amount[mine]
        found = np.empty((self._nodes, amount.shape[1]))
        for at, column in enumerate(amount.T):
            found[:, at] = np.bincount(node, column, self._nodes)
        return found

    def sitting_on(self, nodes: Sequence[int]) -> Ints:
        """Return the rows of the jobs that hold resources of these nodes."""
        return np.unique(self._job[np.isin(self.node, nodes)])


@dataclass(slots=True, eq=False)
class ClusterCapacity:
    """The free capacity now and later. What is promised to a job is taken from both, so `now` never exceeds `later`.

    Attributes:
        now: What no job holds.
        later: Also what releasing jobs and jobs chosen for preemption will free.
    """

    now: FreeCapacity
    later: FreeCapacity

    def start(self, kind: PlacementRequest, placement: Placement) -> None:
        """Take what a job gets that starts now."""
        self.now.take(kind, placement)
        self.later.take(kind, placement)

    def reserve(self, kind: PlacementRequest, placement: Placement) -> None:
        """Take what is reserved for a job that starts once other jobs have released it."""
        self.later.take(kind, placement)
        self.now.limit(self.later, [node for node, _ in placement])
