"""The state of one chain: which physical cells are free, which of them are bad, and what the VCs do not use of their cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.buddy_allocation import highest_split, splittable
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL, CellChain
from tiresias.scheduler.virtual_clusters.cell_list import CellList, FreeCellDraft
from tiresias.scheduler.virtual_clusters.node_view import view_of


class ChainState:
    """Free cells and counts of one chain. Lists by level have an unused element 0.

    Attributes:
        chain: The chain.
        cells: All cells by level.
        free: Free cells by level: no part of them is allocated to a preassigned cell, and they have not been split.
        left: Number of cells by level that are free, or are part of a free cell.
        bad_free: Bad cells by level among those.
        owned_free: For each VC, by level, the preassigned cells that are not in use.
        all_owned_free: Their sum over the VCs.
        doomed: For each VC, by level, bad cells bound to unused preassigned cells, because there are too few healthy ones.
        doomed_count: Number of doomed cells by level.
        view: The nodes, for opportunistic jobs.
    """

    def __init__(self, chain: CellChain, cells: list[list[PhysicalCell]], owned: Mapping[str, list[int]]) -> None:
        """Start with all topmost cells free and healthy. Raises UsageError if the VCs own more than there is."""
        self.chain, self.cells = chain, cells
        self.free = [CellList(level) for level in cells]
        self.bad_free = [CellList(level) for level in cells]
        self.opportunistic = [np.zeros(len(level), np.int32) for level in cells]
        self._opportunistic = [level.data for level in self.opportunistic]  # single numbers are written faster
        self.free[chain.top].reset(cells[chain.top])
        self.left = [len(level) for level in cells]
        self.owned_free = {vc: list(counts) for vc, counts in owned.items()}
        self.all_owned_free = [sum(counts) for counts in zip(*owned.values(), strict=True)] or [0] * len(cells)
        self.doomed: dict[str, list[list[PhysicalCell]]] = {vc: [[] for _ in cells] for vc in owned}
        self.doomed_count = [0] * len(cells)
        self._is_safe: bool | None = None
        self.view = view_of(cells[chain.top])
        self.check()

    def check(self, before: str = "the larger cells that they own") -> None:
        """Raise UsageError if the cells of the VCs do not fit into the free ones. `before`: what has been subtracted from them."""
        spare = self.splittable()
        for level in range(self.chain.top, LEAF_LEVEL - 1, -1):
            if spare[level] < 0:
                asked, at = self.all_owned_free[level], self.chain.at(level).cell_type
                raise UsageError(
                    f"virtual clusters own {asked} cells of type {at} (level {level} of chain {self.chain.name}); "
                    f"after {before}, {asked + spare[level]} are left"
                )

    def draft(self) -> FreeCellDraft:
        """Return the free cells for one search."""
        return FreeCellDraft(self.cells, self.free, self.opportunistic)

    def sort(self) -> None:
        """Order the free cells by number, so that no earlier change decides between equally good cells."""
        for cells in (*self.free, *self.bad_free):
            cells.sort()

    def healthy_left(self, level: int) -> int:
        """Return the number of healthy free cells of a level."""
        return self.left[level] - len(self.bad_free[level])

    def short(self, vc: str) -> list[int]:
        """Return for each level how many unused cells of a VC lack healthy hardware if the VC uses all others; index 0 is unused.

        Cells are doomed where there are too few healthy ones of their level. Here those count, too, that are parts of larger cells
        of the VC. Larger cells come first, and other VCs are assumed to use nothing. O(levels).
        """
        found, taken = [0] * (self.chain.top + 1), 0
        for level in range(self.chain.top, LEAF_LEVEL - 1, -1):
            taken *= self.chain.at(level + 1).children if level < self.chain.top else 1
            owned = self.owned_free[vc][level]
            found[level] = max(0, min(owned, taken + owned - self.healthy_left(level)))
            taken += owned - found[level]
        return found

    def splittable(self) -> list[int]:
        """Return for each level how many free cells may be split; index 0 is unused."""
        return splittable(self.chain, [len(level) for level in self.free], self.all_owned_free)

    @property
    def is_safe(self) -> bool:
        """Whether all VCs can still receive their cells. O(1), unless a cell has been taken or given since the last call."""
        if self._is_safe is None:
            self._is_safe = min(self.splittable()) >= 0
        return self._is_safe

    def count_owned(self, vc: str, level: int, change: int) -> None:
        """Add to the number of preassigned cells of a level that a VC does not use."""
        self.owned_free[vc][level] += change
        self.all_owned_free[level] += change
        self.left[level] += change
        self._is_safe = None

    def bad_to_spare(self, level: int) -> PhysicalCell:
        """Return the first bad free cell of a level without which all VCs can still receive their cells.

        Call it where VCs own more unused cells of the level than healthy ones are free. Then there is one, as long as `is_safe`: up
        to the highest level that may be split, the free cells suffice for what the VCs own of these levels, so that not all of them
        are healthy. Otherwise a start takes too much and is about to be taken back; then the first one is as good as any other.
        """
        highest = self._highest_to_spare(level)
        return next(cell for cell in self.bad_free[level] if cell.free_level <= highest)

    def can_spare(self, cell: PhysicalCell) -> bool:
        """Return whether all VCs can still receive their cells without a free cell, or cannot even with it."""
        return cell.free_level <= self._highest_to_spare(cell.level)

    def _highest_to_spare(self, level: int) -> int:
        """Return the highest level of which a free cell may be split for one of `level`."""
        spare = self.splittable()
        return highest_split(spare, level) if min(spare) >= 0 else self.chain.top

    def take(self, cell: PhysicalCell) -> int:
        """Remove a cell from the free list, splitting the cells above it; return the topmost level that changed."""
        self._is_safe = None
        while True:
            parent = cell.parent
            whole = parent is not None and not parent.split
            if parent is not None and whole:
                for child in parent.children:
                    self.free[cell.level].append(child)
                parent.split = True
            self.free[cell.level].remove(cell)
            if parent is None or not whole:
                return cell.level
            cell = parent

    def give(self, cell: PhysicalCell) -> int:
        """Add a cell to the free list, merging it with its buddies while all are free; return the level that it reached."""
        self._is_safe = None
        while cell.parent is not None:
            free = self.free[cell.level]
            buddies = [child for child in cell.parent.children if child is not cell]
            if not all(buddy in free for buddy in buddies):
                break
            for buddy in buddies:
                free.remove(buddy)
            cell.parent.split = False
            cell = cell.parent
        self.free[cell.level].append(cell)
        return cell.level

    def count_opportunistic(self, leaf: PhysicalCell, change: int) -> None:
        """Add to the number of leaves that opportunistic jobs use, in each cell above a leaf."""
        cell: PhysicalCell | None = leaf
        while cell is not None:
            cell.opportunistic = self._opportunistic[cell.level][cell.number] = cell.opportunistic + change
            cell = cell.parent

    def weigh(self, leaves: Iterable[PhysicalCell], weight: int) -> None:
        """Count each of some leaves as so many more that opportunistic jobs use. O(leaves + cells above them)."""
        weights = dict.fromkeys(leaves, weight)
        for level in self._opportunistic[LEAF_LEVEL:]:
            above: dict[PhysicalCell, int] = {}
            for cell, each in weights.items():
                cell.opportunistic = level[cell.number] = cell.opportunistic + each
                if cell.parent is not None:
                    above[cell.parent] = above.get(cell.parent, 0) + each
            weights = above
