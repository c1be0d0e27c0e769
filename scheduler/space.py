"""What may be used on each node, and what that means for jobs of one kind.

A `Space` is read and shrunk thousands of times in one decision, so the answer to "how many GPUs can each node give to a job like
this" is kept and only brought up to date on the nodes that changed since it was asked for last.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Request, Style

GPUS, CPUS, MEMORY = 0, 1, 2  # columns

Placement = tuple[tuple[int, int], ...]  # (row in Nodes, GPUs)

_ROUNDING = 1e-9


class Kind:
    """A request, how it is to be placed, and the nodes that it names or describes; allowed: shape (nodes,). packed: on as few
    nodes as it could ever have. One object for each such: compared by identity."""

    def __init__(
        self, request: Request, allowed: Bools, style: Style = Style.CONSOLIDATE, packed: bool = False
    ) -> None:
        self.request, self.allowed, self.style, self.packed = request, allowed, style, packed
        per_gpu = amounts(request, 1)
        if request.memory_per_node:
            per_gpu[MEMORY] = 0.0
        self._amounts: dict[int, Floats] = {}
        self._counted = np.flatnonzero(per_gpu)
        self._per_gpu = per_gpu[self._counted]

    def amounts(self, gpus: int) -> Floats:
        """What a job takes of a node on which it has so many GPUs; shape (3,)."""
        found = self._amounts.get(gpus)
        if found is None:
            found = self._amounts[gpus] = amounts(self.request, gpus)
        return found

    def fit(self, amount: Floats, allowed: Bools) -> Ints:
        """GPUs that each node can give, shape (n,), 0 or less for none. amount: shape (n, 3). allowed: of the same n nodes."""
        fit: Floats = np.floor(amount[:, self._counted] / self._per_gpu + _ROUNDING).min(axis=1) * allowed
        if self.request.memory_per_node:
            fit *= amount[:, MEMORY] + _ROUNDING >= self.request.memory_per_node
        return fit.astype(np.int64)


def amounts(request: Request, gpus: int) -> Floats:
    return np.array((gpus, request.cpus_per_gpu * gpus, request.memory_per_node or request.memory_per_gpu * gpus))


@dataclass(slots=True, eq=False)
class Space:
    """amount: shape (nodes, 3): GPUs, CPUs and MB. Change it through the methods only."""

    amount: Floats
    changed: list[int] = field(default_factory=list)
    _offers: dict[Kind, Offer] = field(default_factory=dict)

    def take(self, kind: Kind, placement: Placement) -> None:
        for node, gpus in placement:
            self.amount[node] -= kind.amounts(gpus)
            self.changed.append(node)

    def limit(self, other: Space, nodes: Sequence[int]) -> None:
        """Not more than `other` has there."""
        rows = list(nodes)
        self.amount[rows] = np.minimum(self.amount[rows], other.amount[rows])
        self.changed += rows

    def add(self, amount: Floats) -> None:
        """amount: shape (nodes, 3)."""
        self.amount += amount
        self.changed += np.flatnonzero(amount.any(axis=1)).tolist()

    def offer(self, kind: Kind) -> Offer:
        offer = self._offers.get(kind)
        if offer is None:
            offer = self._offers[kind] = Offer(kind, self)
        offer.refresh()
        return offer


class Offer:
    """fit: the GPUs that each node can give to jobs of one kind, shape (nodes,)."""

    def __init__(self, kind: Kind, space: Space) -> None:
        self._kind, self._space = kind, space
        self._seen = len(space.changed)
        self._count_all()

    def refresh(self) -> None:
        """O(changed nodes), at most O(nodes)."""
        news = self._space.changed[self._seen :]
        self._seen += len(news)
        if len(news) > len(self.fit) // 8:
            self._count_all()
        elif news:
            self.fit[news] = self._kind.fit(self._space.amount[news], self._kind.allowed[news])
            for node, gpus in zip(news, self.fit[news].tolist(), strict=True):
                if gpus > 0:
                    heapq.heappush(self._shelves[gpus], node)

    def tightest(self, gpus: int) -> int | None:
        """The node with the least room that is enough, ties by row. O(log nodes)."""
        for enough in sorted(size for size in self._shelves if size >= gpus):
            shelf = self._shelves[enough]
            while shelf and self.fit[shelf[0]] != enough:
                heapq.heappop(shelf)  # has changed since it was put there
            if shelf:
                return shelf[0]
        return None

    def fragments(self, gpus: int) -> Placement | None:
        """Nodes with the least room, ties by row, until they have so many GPUs together. O(their number x log nodes)."""
        parts: list[tuple[int, int]] = []
        for room in sorted(self._shelves):
            shelf = self._shelves[room]
            seen: list[int] = []
            while gpus and shelf:
                node = heapq.heappop(shelf)
                if self.fit[node] == room and node not in seen[-1:]:
                    seen.append(node)
                    parts.append((node, min(room, gpus)))
                    gpus -= parts[-1][1]
            for node in seen:
                heapq.heappush(shelf, node)
            if not gpus:
                return tuple(sorted(parts))
        return None

    def _count_all(self) -> None:
        self.fit = self._kind.fit(self._space.amount, self._kind.allowed)
        # Nodes by what they give: each shelf is a heap of rows, in which rows that have changed since may still stand.
        self._shelves: defaultdict[int, list[int]] = defaultdict(list)
        for gpus in np.unique(self.fit[self.fit > 0]).tolist():
            self._shelves[gpus] = np.flatnonzero(self.fit == gpus).tolist()
