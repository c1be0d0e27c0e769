"""The GPUs that each node has free for jobs with equal demands, kept in the orders in which nodes are searched.

One decision places thousands of jobs, and each placement changes one node or a few. So the cost of a change depends on these nodes
only, and a search reads shelves of nodes with equal free GPUs, or groups of nodes, never all nodes one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.place.gpu_islands import FreeShape, Islands, plain

if TYPE_CHECKING:
    from tiresias.scheduler.place.placement_context import PlacementContext

Placement = tuple[tuple[int, int], ...]  # (row in Nodes, GPUs)
SMALL = 256  # nodes


def few(nodes: int) -> int:
    """Return up to how many of `nodes` nodes are updated one by one; for more, counting all nodes is faster."""
    return 50 + nodes // 32


class GroupCounts:
    """Free GPUs of the groups of nodes of one level.

    Attributes:
        of: The index of each node's group, shape (nodes,).
        at_least: How many nodes of each group have at least 1, 2, 3 ... GPUs free, shape (GPUs, groups).
        in_all: The same of all groups together, shape (GPUs,).
        free: Free GPUs of each group, shape (groups,).
        changed: Rows of the nodes that changed since the last `refresh`.
    """

    def __init__(self, of: Ints, fit: Ints, most: int) -> None:
        """Count all nodes.

        Args:
            of: The index of each node's group, shape (nodes,).
            fit: As of `CandidateNodes`, which changes it later, adds the changed rows to `changed`, and never exceeds `most`.
            most: The largest value of `fit`.
        """
        self.of, self._fit, self._most = of, fit, most
        self.changed: set[int] = set()
        self._by_group = np.argsort(of.astype(np.int16), kind="stable")
        self._ends = np.cumsum(np.bincount(of, minlength=1)).tolist()
        self._count_all()

    def refresh(self) -> None:
        """Bring the counts up to date: O(changed nodes), at most O(nodes)."""
        if len(self.changed) > few(len(self.of)):
            self._count_all()
        else:
            for node in self.changed:
                self._count(node)
        self.changed.clear()

    def members(self, group: int) -> Ints:
        """Return the rows of the group's nodes."""
        return self._by_group[self._ends[group - 1] if group else 0 : self._ends[group]]

    def _count_all(self) -> None:
        groups, sizes = len(self._ends), self._most + 1
        exactly = np.bincount(self.of * sizes + self._fit, minlength=groups * sizes).reshape(groups, sizes)
        self.at_least = np.ascontiguousarray(exactly.T[::-1].cumsum(axis=0)[-2::-1])
        self.in_all: list[int] = self.at_least.sum(axis=1).tolist()
        self.free = self.at_least.sum(axis=0)
        self._counted, self._gives, self._group_of = self._fit.tolist(), self._fit.data, self.of.data
        self._counts, self._group_free = self.at_least.data, self.free.data  # for one number at a time

    def _count(self, node: int) -> None:
        before, after, group = self._counted[node], self._gives[node], self._group_of[node]
        self._counted[node] = after
        self._group_free[group] += after - before
        step = 1 if after > before else -1
        for gpus in range(min(before, after), max(before, after)):
            self._counts[gpus, group] += step
            self.in_all[gpus] += step


class CandidateNodes:
    """The nodes on which jobs with equal demands may be placed.

    Attributes:
        fit: GPUs that each node has free for such a job, shape (nodes,); 0 where it may not run. Changed by `update` only.
        rows: The rows of all nodes, shape (nodes,).
        context: What is known of the placement that is to be found, beyond that (`placement_context.py`).
    """

    context: PlacementContext

    def __init__(self, fit: Ints, groups: Sequence[Ints], islands: Islands | None = None) -> None:
        """groups: the index of each node's leaf switch, then of the group above it, and so on; each of shape (nodes,)."""
        self.fit, self._groups, self._islands = fit, groups, islands
        self.rows = np.arange(len(fit))
        self._free, self._most = fit.data, int(fit.max(initial=1))
        # Both are built when they are first used. Each shelf is a heap of rows; rows that have changed may remain in it.
        self._shelves: dict[FreeShape, list[int]] | None = None
        self._order: dict[
            int, list[tuple[FreeShape, list[int]]]
        ] = {}  # for a job of so many GPUs; 0: for its fragments
        self._levels: list[GroupCounts] = []

    def update(self, node: int, gpus: int) -> None:
        """Set the free GPUs of a node. O(log nodes)."""
        if gpus == self._free[node] and not self._islands:
            return
        self._free[node] = gpus
        if gpus > self._most:
            self._most, self._levels = gpus, []
        if self._shelves is not None and gpus:
            self._put(self._shelves, node)
        for level in self._levels:
            level.changed.add(node)

    def limited(self, rows: Bools) -> CandidateNodes:
        """Return the candidates without the other nodes. O(nodes). rows: shape (nodes,)."""
        return CandidateNodes(np.where(rows, self.fit, 0), self._groups, self._islands)

    def levels(self) -> Iterator[GroupCounts]:
        """Yield the counts of each level of groups, the nearest level first."""
        if not self._levels:
            self._levels = [GroupCounts(of, self.fit, self._most) for of in self._groups]
        for level in self._levels:
            level.refresh()
            yield level

    def tightest(self, gpus: int) -> int | None:
        """Return the node with the fewest free GPUs that suffice, on as few islands as possible, ties by row; None: no node has
        enough. O(log nodes); among few nodes without islands O(nodes) in numpy, which is faster than their shelves."""
        if gpus > self._most:
            return None
        if 0 < len(self.fit) <= SMALL and not self._islands:
            node = int(np.where(self.fit >= gpus, self.fit, self._most + 1).argmin())
            return node if self._free[node] >= gpus else None
        for shape, shelf in self._in_order(gpus):
            while shelf and self._shape(shelf[0]) != shape:
                heapq.heappop(shelf)
            if shelf:
                return shelf[0]
        return None

    def fragments(self, gpus: int) -> Placement | None:
        """Return a placement on the nodes with the fewest free GPUs, partly used islands first, ties by row; None: all nodes
        together have too few. O(nodes of the placement x log nodes)."""
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
        gpus = self._free[node]
        return self._islands.shape(node, gpus) if self._islands else plain(gpus)

    def _put(self, shelves: dict[FreeShape, list[int]], node: int) -> None:
        shape = self._shape(node)
        shelf = shelves.get(shape)
        if shelf is None:
            shelf = shelves[shape] = []
            self._order.clear()
        heapq.heappush(shelf, node)

    def _in_order(self, gpus: int) -> list[tuple[FreeShape, list[int]]]:
        """Return the shelves of nodes that suffice, the best first."""
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
    """Return the nodes with at least so many GPUs free, sorted in ascending order of these, ties by row. O(rows)."""
    rows = rows[fit[rows] >= least]
    return rows[np.argsort(fit[rows].astype(np.int16), kind="stable")]  # so short that numpy sorts in linear time
