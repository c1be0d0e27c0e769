"""On which physical nodes a guaranteed job can start, once the opportunistic jobs that may be preempted have left them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import sub

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Jobs, JobState, Request, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED, amounts
from tiresias.scheduler.tenants.node_conditions import Condition, NodeConditions
from tiresias.scheduler.tenants.suggested_nodes import SuggestedNodes

_ROUNDING = 1e-6


class HardwareDemand:
    """What the nodes of a snapshot can give to guaranteed jobs."""

    def __init__(self, snapshot: Snapshot, removable: Bools, by_condition: NodeConditions | None = None) -> None:
        """Start with nothing promised.

        Args:
            snapshot: Jobs, nodes and allocations.
            removable: The jobs that release their GPUs, or may be preempted for a guaranteed one, shape (jobs,).
            by_condition: The nodes by conditions; None: not known.
        """
        self._known = by_condition
        self._snapshot, self._removable = snapshot, removable
        self._free = snapshot.nodes.free.amount[:, :COUNTED]
        self._promised: dict[int, list[float]] = {}  # by row of the node
        self._suggested: dict[tuple[int, int], SuggestedNodes | None] = {}

    @cached_property
    def promised(self) -> Floats:
        """What guaranteed jobs that do not run yet take of each node, shape (nodes, 3): GPUs, CPUs, MiB. It follows promises."""
        found = np.zeros_like(self._free)
        for row, amount in self._promised.items():
            found[row] = amount
        return found

    @cached_property
    def _row(self) -> Mapping[str, int]:
        return self._by_condition.row_of

    @cached_property
    def _by_condition(self) -> NodeConditions:
        nodes = self._snapshot.nodes
        return self._known or NodeConditions(nodes, {name: row for row, name in enumerate(nodes.name)})

    @cached_property
    def _available(self) -> Floats:
        return self._free + _held_by(self._snapshot, self._removable)

    @cached_property
    def _available_columns(self) -> Floats:
        """The same column by column, shape (3, nodes): it is read by columns."""
        return np.ascontiguousarray(self._available.T)

    def suggested(self, request: Request, gpus: int) -> SuggestedNodes | None:
        """Return the nodes that can give so many GPUs to such a job; None: all. O(nodes) for each new request."""
        key = (id(request), gpus)  # the snapshot keeps its requests, and equal ones are mostly one object
        if key not in self._suggested:
            self._suggested[key] = self._nodes_for(request, gpus)
        return self._suggested[key]

    def available(self) -> Floats:
        """Return what is free on each node, or held by jobs that may be removed, shape (nodes, 3)."""
        return self._available

    def _nodes_for(self, request: Request, gpus: int) -> SuggestedNodes | None:
        nodes = self._snapshot.nodes
        need = (0.0, *amounts(request, gpus)[1:])  # the GPUs of a node are in its cells
        enough = nodes.usable.copy()
        for there, needed in zip(self._available_columns, need, strict=True):
            enough &= there >= needed - _ROUNDING
        enough &= self._by_condition.meeting(Condition.of(request))
        return None if enough.all() else SuggestedNodes(self._row, enough)

    def promise(self, request: Request, placement: Sequence[tuple[str, int]]) -> bool:
        """Promise what a placement takes. False, and nothing is promised: it takes more than what can be free on a node."""
        if not request.nodes <= {name for name, _ in placement}:
            return False
        shares = [
            (self._row[name], self.with_promised(self._row[name], amounts(request, gpus))) for name, gpus in placement
        ]
        if not all(_is_within(amount, self._available[row].tolist()) for row, amount in shares):
            return False
        self._count(shares)
        return True

    def withdraw(self, request: Request, placement: Sequence[tuple[str, int]]) -> None:
        """Take back what was promised to a placement."""
        rows = [(self._row[name], amounts(request, gpus)) for name, gpus in placement]
        self._count([(row, list(map(sub, self._promised[row], amount))) for row, amount in rows])

    def _count(self, shares: Sequence[tuple[int, list[float]]]) -> None:
        """Count what is promised on each of some nodes from now on."""
        self._promised.update(shares)
        if "promised" in self.__dict__:
            for row, amount in shares:
                self.promised[row] = amount

    def is_promised(self, row: int) -> bool:
        """Return whether something of a node was promised."""
        return row in self._promised

    def left(self, column: int, rows: Ints | slice = slice(None)) -> Floats:
        """Return what is free on nodes and promised to no job: GPUs, CPUs or MiB, by their column. Below 0: jobs release it."""
        found: Floats = self._free[rows, column] - self.promised[rows, column]
        return found

    def row(self, name: str) -> int:
        """Return the row of a node."""
        return self._row[name]

    def free(self, row: int) -> list[float]:
        """Return what is free on a node: GPUs, CPUs, MiB."""
        found: list[float] = self._free[row].tolist()
        return found

    def with_promised(self, row: int, need: Sequence[float]) -> list[float]:
        """Return what is promised of a node, and another share."""
        promised = self._promised.get(row)
        return list(need) if promised is None else [one + other for one, other in zip(promised, need, strict=True)]

    def free_now(self, nodes: Iterable[str]) -> bool:
        """Return whether the nodes of a promised placement have everything free that was promised there."""
        rows = (self._row[name] for name in nodes)
        return all(_is_within(self._promised[row], self._free[row].tolist()) for row in rows)


def _is_within(amount: Sequence[float], limit: Sequence[float]) -> bool:
    return all(one <= most + _ROUNDING for one, most in zip(amount, limit, strict=True))


def _held_by(snapshot: Snapshot, jobs: Bools) -> Floats:
    """Return what the jobs hold on each node, shape (nodes, 3)."""
    held = snapshot.allocations
    rows = np.flatnonzero(jobs[held.job])
    node, amount = held.node[rows], held.resources.amount[rows, :COUNTED]
    return np.stack([np.bincount(node, column, len(snapshot.nodes)) for column in amount.T], axis=1)


def is_reclaimable(jobs: Jobs) -> Bools:
    """Return which running jobs may be preempted for the owners of the cells on which they run, shape (jobs,)."""
    may = jobs.movable if jobs.reclaimable is None else jobs.reclaimable
    found: Bools = (jobs.state == JobState.RUNNING) & may
    return found


def may_be_removed(snapshot: Snapshot) -> Bools:
    """Return the jobs that release their GPUs, or run and may be preempted for the owners of their cells, shape (jobs,)."""
    found: Bools = (snapshot.jobs.state == JobState.RELEASING) | is_reclaimable(snapshot.jobs)
    return found
