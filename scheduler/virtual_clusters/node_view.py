"""The nodes among which the GPUs of a gang are chosen: those of a VC, of a pinned cell, or of a chain.

The nodes are kept in columns, and in an order: healthy ones first, then those with the most GPUs in use, so that jobs are packed.
Equal nodes keep the order that earlier requests left. A request costs a stable sort of small keys, O(nodes), in numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.virtual_clusters.cell import OPPORTUNISTIC, Cell, PhysicalCell, leaves_of
from tiresias.scheduler.virtual_clusters.wait_reasons import WaitCode, WaitReason

Ints = npt.NDArray[np.int64]


class Chosen(NamedTuple):
    """The nodes of the pods of a gang.

    Attributes:
        rows: The row of each pod's node; () if there are not enough.
        reason: Why there are not enough.
    """

    rows: tuple[int, ...]
    reason: WaitReason | None = None


class NodeView:
    """The nodes of a VC, a pinned cell or a chain.

    Attributes:
        cells: Node cells, and topmost cells below the node level, by row.
        hardware: The number of the physical cell to which each virtual one is bound, shape (cells,); -1: none.
        changes: How often one of these, or its health, has been set.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        """Start with nodes without jobs, all healthy."""
        self.cells = cells
        self._total = np.array([cell.chain.at(cell.level).leaves for cell in cells], np.int64)
        self._used: dict[int, Ints] = {}
        self._all_used = np.zeros(len(cells), np.int64)
        self._counts: dict[int, memoryview[int]] = {}  # the same numbers: single ones are read and written faster
        self._all_counts = self._all_used.data
        self._healthy = np.ones(len(cells), np.bool_)
        self.hardware = np.full(len(cells), -1, np.int64)
        self.changes = 0
        self._node: list[str] = [cell.nodes[0] if isinstance(cell, PhysicalCell) else "" for cell in cells]
        self._order = np.arange(len(cells))
        self._base = int(self._total.max(initial=0)) + 1
        self._across = not (cells and isinstance(cells[0], PhysicalCell))

    def count(self, row: int, priority: int, change: int) -> None:
        """Add to the number of leaves that jobs of a priority use on a node."""
        used = self._counts.get(priority)
        if used is None:
            self._used[priority] = np.zeros(len(self.cells), np.int64)
            used = self._counts[priority] = self._used[priority].data
        used[row] += change
        self._all_counts[row] += change

    def used(self, row: int) -> int:
        """Return the number of leaves in use on a node."""
        return int(self._all_used[row])

    def set_hardware(self, row: int, cell: PhysicalCell | None) -> None:
        """Set the physical cell to which a virtual one is bound. Without one, it counts as healthy."""
        self._healthy[row] = cell is None or cell.healthy
        self._node[row] = cell.nodes[0] if cell else ""
        self.hardware[row] = cell.number if cell else -1
        self.changes += 1

    def choose(self, sizes: Sequence[int], priority: int, suggested: Set[str] | None) -> Chosen:
        """Choose a node for each pod, in the order of the view: a node is left as soon as the next pod does not fit there.

        Args:
            sizes: Leaves of each pod, ascending.
            priority: Leaves of lower priorities count as free.
            suggested: Names of allowed nodes; None: all.
        """
        allowed = self._allowed(suggested)
        self._sort(allowed)
        free = (self._total - self._used_from(priority))[self._order]
        positions = _first_fit(free, sizes)
        rows = self._order[positions].tolist()
        for row in rows:
            if not self._healthy[row]:
                return Chosen((), WaitReason(WaitCode.BAD_NODE, self._node[row]))
            if not allowed[row]:
                return Chosen((), WaitReason(WaitCode.NOT_SUGGESTED, self._node[row]))
        return Chosen(tuple(rows)) if len(rows) == len(sizes) else Chosen((), WaitReason(WaitCode.NO_CAPACITY))

    def _allowed(self, suggested: Set[str] | None) -> npt.NDArray[np.bool_]:
        if suggested is None:
            return np.ones(len(self.cells), np.bool_)
        return np.fromiter((not name or name in suggested for name in self._node), np.bool_, len(self._node))

    def _used_from(self, priority: int) -> Ints:
        if priority <= OPPORTUNISTIC:
            return self._all_used
        return sum((used for each, used in self._used.items() if each >= priority), np.zeros(len(self.cells), np.int64))

    def _sort(self, allowed: npt.NDArray[np.bool_]) -> None:
        """Sort by health, permission, and use: all use in a VC; else that of opportunistic jobs, then the least of others."""
        same = self._all_used if self._across else self._used.get(OPPORTUNISTIC, np.zeros_like(self._all_used))
        key = (~self._healthy * 2 + ~allowed) * self._base + (self._base - 1 - same)
        key = key * self._base + (self._all_used - same)
        small = np.int16 if 4 * self._base**2 < np.iinfo(np.int16).max else np.int64  # int16 is sorted by radix
        self._order = self._order[np.argsort(key.astype(small)[self._order], kind="stable")]


def _first_fit(free: Ints, sizes: Sequence[int]) -> list[int]:
    """Return the position of each pod's node, as far as there are nodes."""
    found: list[int] = []
    position, taken = 0, 0
    for size, pods in groupby(sizes):
        fitting = np.flatnonzero(free[position:] >= size) + position
        at = 0
        for _ in pods:
            if at < len(fitting) and fitting[at] == position and free[position] - taken < size:
                at += 1
            if at == len(fitting):
                return found
            taken = taken if fitting[at] == position else 0
            position = int(fitting[at])
            taken += size
            found.append(position)
    return found


def view_of(cells: Iterable[Cell]) -> NodeView:
    """Return the view of some topmost cells, and set view and row of its nodes and their leaves."""
    levels: dict[int, list[Cell]] = {}
    for cell in cells:
        _collect(cell, levels)
    rows = [cell for level in sorted(levels, reverse=True) for cell in levels[level]]
    view = NodeView(rows)
    for row, cell in enumerate(rows):
        _enter(cell, view, row)
    return view


def _collect(cell: Cell, levels: dict[int, list[Cell]]) -> None:
    if cell.level <= cell.chain.node_level:
        levels.setdefault(cell.level, []).append(cell)
        return
    for child in cell.children:
        _collect(child, levels)


def _enter(cell: Cell, view: NodeView, row: int) -> None:
    cell.view, cell.row = view, row
    for leaf in leaves_of(cell):
        leaf.host = cell
