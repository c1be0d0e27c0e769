"""What may be used on each node, and what that means for jobs of one kind.

A `Space` is read and shrunk thousands of times in one decision. Whole arrays are counted by numpy; one node is looked at and
changed through a view of the same memory, because numpy takes longer for one number than Python for the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from tiresias.scheduler.elementwise import Values, larger, smaller, where, whole
from tiresias.scheduler.islands import Division, Islands
from tiresias.scheduler.model import Bools, Floats, Ints, Request, Style
from tiresias.scheduler.offer import Offer, Placement, few

GPUS, CPUS, MEMORY = 0, 1, 2  # columns; then GPUs on the first island of a node, on the second ..., where any are known
COUNTED = 3  # columns that a job is sure to take of

_ROUNDING = 1e-9


class Demand:
    """The part of a request that tells how many GPUs a node can give to it. One object for each such part: compared by identity.

    described: nodes that it names or describes, up or down; allowed: those of them on which it may start now; shape (nodes,).
    groups: of the nodes, as of an `Offer`. islands: the rows of nodes of which it may use the GPUs of one island only, and which.
    """

    def __init__(
        self, request: Request, described: Bools, open_now: Bools, groups: Sequence[Ints], islands: Mapping[int, int]
    ) -> None:
        self.described, self.groups, self.islands = described, groups, islands
        self.allowed = described & open_now
        self._may_use = self.allowed.data
        self._request = request

    def offer(self, amount: Floats, islands: Islands | None = None) -> Offer:
        """amount: shape (nodes, columns)."""
        gpus, cpus, memory = amount.T[:COUNTED]
        if self.islands:
            rows, at = list(self.islands), list(self.islands.values())
            gpus = gpus.copy()
            gpus[rows] = np.minimum(gpus[rows], amount[rows, np.add(at, COUNTED)])
        fit = np.where(self.allowed, self._fit(gpus, cpus, memory), 0.0)
        return Offer(fit.astype(np.int64), self.groups, islands)

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


class Kind:
    """A request and how it is to be placed. packed: on as few nodes as it could ever have. One object for each such: compared by
    identity."""

    def __init__(
        self, request: Request, demand: Demand, style: Style = Style.CONSOLIDATE, packed: bool = False
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


class Space:
    """amount: shape (nodes, columns); change it through the methods only. divisions: of each node, where islands are known."""

    def __init__(self, amount: Floats, divisions: Sequence[Division] = ()) -> None:
        self.amount = amount
        self._columns = [cast("memoryview[float]", column.data) for column in amount.T]
        self._islands = Islands(divisions, self._columns[COUNTED:]) if divisions else None
        self._changed: list[int] = []
        self._offers: dict[Demand, tuple[Offer, int]] = {}  # and how many of the changes it knows

    def take(self, kind: Kind, placement: Placement) -> None:
        gpus, cpus, memory = self._columns[:COUNTED]
        for node, count in placement:
            amount = kind.amounts(count)
            gpus[node] -= amount[GPUS]
            cpus[node] -= amount[CPUS]
            memory[node] -= amount[MEMORY]
            if self._islands:
                self._islands.take(node, count, kind.demand.islands.get(node))
            self._changed.append(node)

    def limit(self, other: Space, nodes: Sequence[int]) -> None:
        """Not more than `other` has there."""
        for node in nodes:
            for mine, theirs in zip(self._columns, other._columns, strict=True):
                mine[node] = min(mine[node], theirs[node])
        self._changed += nodes

    def add(self, amount: Floats) -> None:
        """amount: shape (nodes, columns)."""
        self.amount += amount
        self._changed += np.flatnonzero(amount.any(axis=1)).tolist()

    def offer(self, kind: Kind) -> Offer:
        """Brought up to date: O(nodes changed since it was asked for last), at most O(nodes)."""
        demand = kind.demand
        offer, known = self._offers.get(demand, (None, 0))
        if offer is None or known < len(self._changed):
            offer = self._offered(demand, offer, set(self._changed[known:]))
            self._offers[demand] = offer, len(self._changed)
        return offer

    def _offered(self, demand: Demand, offer: Offer | None, changed: set[int]) -> Offer:
        if offer is None or len(changed) > few(len(self.amount)):
            return demand.offer(self.amount, self._islands)
        for node in changed:
            offer.update(node, demand.fit(node, self._columns))
        return offer
