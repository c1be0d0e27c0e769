"""What each node can give to jobs that ask alike, kept in the orders in which nodes are looked for.

One decision places thousands of jobs, and each changes one node or a few. So a change costs no more than these nodes, and a
search looks at shelves of nodes that give the same, or at groups of nodes, never at all nodes one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

from tiresias.scheduler.model import Ints
from tiresias.scheduler.place.gpu_islands import FreeShape, Islands, plain

Placement = tuple[tuple[int, int], ...]  # (row in Nodes, GPUs)


def few(nodes: int) -> int:
    """So many are quicker looked at one by one than with all others."""
    return 50 + nodes // 32


class GroupCounts:
    """What the groups of nodes of one level have, brought up to date when it is asked for: O(nodes changed), at most O(nodes).

    of: the index of each node's group, shape (nodes,). at_least: how many nodes of each group give at least 1, 2, 3 ... GPUs,
    shape (GPUs, groups); in_all: of all groups together. room: GPUs that each group gives, shape (groups,).
    """

    def __init__(self, of: Ints, fit: Ints, most: int) -> None:
        """fit: as an offer's, which goes on changing it, but to `most` at most, and tells `changed` where."""
        self.of, self._fit, self._most = of, fit, most
        self.changed: set[int] = set()
        self._by_group = np.argsort(of.astype(np.int16), kind="stable")
        self._ends = np.cumsum(np.bincount(of, minlength=1)).tolist()
        self._count_all()

    def refresh(self) -> None:
        if len(self.changed) > few(len(self.of)):
            self._count_all()
        else:
            for node in self.changed:
                self._count(node)
        self.changed.clear()

    def members(self, group: int) -> Ints:
        """Rows of its nodes."""
        return self._by_group[self._ends[group - 1] if group else 0 : self._ends[group]]

    def _count_all(self) -> None:
        groups, sizes = len(self._ends), self._most + 1
        exactly = np.bincount(self.of * sizes + self._fit, minlength=groups * sizes).reshape(groups, sizes)
        self.at_least = np.ascontiguousarray(exactly.T[::-1].cumsum(axis=0)[-2::-1])
        self.in_all: list[int] = self.at_least.sum(axis=1).tolist()
        self.room = self.at_least.sum(axis=0)
        self._counted, self._gives, self._group_of = self._fit.tolist(), self._fit.data, self.of.data
        self._counts, self._rooms = self.at_least.data, self.room.data  # for one number at a time

    def _count(self, node: int) -> None:
        before, after, group = self._counted[node], self._gives[node], self._group_of[node]
        self._counted[node] = after
        self._rooms[group] += after - before
        step = 1 if after > before else -1
        for gpus in range(min(before, after), max(before, after)):
            self._counts[gpus, group] += step
            self.in_all[gpus] += step


class CandidateNodes:
    """fit: the GPUs that each node can give, shape (nodes,), 0 for none; change it by `update`. groups: the index of each node's
    leaf switch, then of the group above it, and so on."""

    def __init__(self, fit: Ints, groups: Sequence[Ints], islands: Islands | None = None) -> None:
        self.fit, self._groups, self._islands = fit, groups, islands
        self.rows = np.arange(len(fit))
        self._room, self._most = fit.data, int(fit.max(initial=1))
        # Both are made when they are asked for. Each shelf is a heap of rows, in which rows that have changed may still stand.
        self._shelves: dict[FreeShape, list[int]] | None = None
        self._order: dict[
            int, list[tuple[FreeShape, list[int]]]
        ] = {}  # for a job of so many GPUs; 0: for its fragments
        self._levels: list[GroupCounts] = []

    def update(self, node: int, gpus: int) -> None:
        """O(log nodes)."""
        if gpus == self._room[node] and not self._islands:
            return
        self._room[node] = gpus
        if gpus > self._most:
            self._most, self._levels = gpus, []
        if self._shelves is not None and gpus:
            self._put(self._shelves, node)
        for level in self._levels:
            level.changed.add(node)

    def levels(self) -> Iterator[GroupCounts]:
        """The groups, the nearest level first."""
        if not self._levels:
            self._levels = [GroupCounts(of, self.fit, self._most) for of in self._groups]
        for level in self._levels:
            level.refresh()
            yield level

    def tightest(self, gpus: int) -> int | None:
        """The node with the least room that is enough, ties by row; on as few islands as can be. O(log nodes)."""
        for shape, shelf in self._in_order(gpus):
            while shelf and self._shape(shelf[0]) != shape:
                heapq.heappop(shelf)
            if shelf:
                return shelf[0]
        return None

    def fragments(self, gpus: int) -> Placement | None:
        """Nodes with the least room, ties by row, until they have so many GPUs together; those first whose islands are broken.
        O(their number x log nodes)."""
        parts: list[tuple[int, int]] = []
        for shape, shelf in self._in_order(0):
            seen: list[int] = []
            while gpus and shelf:
                node = heapq.heappop(shelf)
                if self._shape(node) == shape and node not in seen[-1:]:
                    seen.append(node)
                    parts.append((node, min(shape.gpus, gpus)))
                    gpus -= parts[-1][1]
            for node in seen:
                heapq.heappush(shelf, node)
        return None if gpus else tuple(sorted(parts))

    def _shape(self, node: int) -> FreeShape:
        gpus = self._room[node]
        return self._islands.shape(node, gpus) if self._islands else plain(gpus)

    def _put(self, shelves: dict[FreeShape, list[int]], node: int) -> None:
        shape = self._shape(node)
        shelf = shelves.get(shape)
        if shelf is None:
            shelf = shelves[shape] = []
            self._order.clear()
        heapq.heappush(shelf, node)

    def _in_order(self, gpus: int) -> list[tuple[FreeShape, list[int]]]:
        """The shelves of nodes that are enough, the best first."""
        if self._shelves is None:
            self._shelves = self._filled()
        order = self._order.get(gpus)
        if order is None:
            enough = [shape for shape in self._shelves if shape.gpus >= gpus]
            enough.sort(key=lambda shape: (shape.cost(gpus) if gpus else shape.wholeness, shape))
            order = self._order[gpus] = [(shape, self._shelves[shape]) for shape in enough]
        return order

    def _filled(self) -> dict[FreeShape, list[int]]:
        rows = tightest(self.rows, self.fit, 1)
        if not self._islands:
            ends = np.cumsum(np.bincount(self.fit[rows])).tolist()
            parts = enumerate(zip([0, *ends], ends, strict=False))
            return {plain(gpus): rows[first:end].tolist() for gpus, (first, end) in parts if end > first}
        shelves: dict[FreeShape, list[int]] = {}
        for node in np.sort(rows).tolist():
            self._put(shelves, node)
        return shelves


def tightest(rows: Ints, fit: Ints, least: int) -> Ints:
    """Those that give at least so many GPUs, in rising order of what they give, ties by row. O(rows)."""
    rows = rows[fit[rows] >= least]
    return rows[np.argsort(fit[rows].astype(np.int16), kind="stable")]  # so short that numpy sorts in linear time
