"""Buddy allocation: the physical cells to which the virtual cells of a placement can be bound.

A preassigned cell is bound to a free cell of its level; if there is none, a free cell of a higher level is split. The check of the
initial assignment makes sure that this always succeeds, as long as no hardware is bad (HiveD, OSDI 2020). Bad and disallowed
nodes are avoided by backtracking, and where that fails by splitting further cells, as many as the other VCs can spare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tiresias.scheduler.virtual_clusters.binding_paths import BindingPaths, Bindings, ToBind
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL, CellChain
from tiresias.scheduler.virtual_clusters.cell_list import FreeCellDraft, opportunistic_of

OnlyNodes = Mapping[VirtualCell, Set[str]]  # names of the nodes to which single virtual cells may be bound
NO_LIMITS: OnlyNodes = {}


@dataclass
class BindingSearch:
    """One search for physical cells.

    Attributes:
        chain: The chain.
        free: Its free cells.
        owned_free: For each level the preassigned cells of all VCs that are not in use; index 0 is unused.
        suggested: Names of allowed nodes; None: all.
        bindings: The result: physical leaves by virtual leaf.
        one_by_one: Whether each further split is checked against what the cells before it have left, and cells with the most
            suggested nodes are split first.
        refused: Leaves that may not be used.
        only: For virtual cells that may be bound to some nodes only: the names of these.
        picked: The cells to which preassigned ones are bound, as far as a further split was necessary for one of them.
    """

    chain: CellChain
    free: FreeCellDraft
    owned_free: list[int]
    suggested: Set[str] | None
    bindings: Bindings
    one_by_one: bool = False
    refused: Set[PhysicalCell] = frozenset()
    only: OnlyNodes = field(default_factory=dict)
    picked: list[PhysicalCell] = field(default_factory=list)
    split_further: bool = False

    def run(self, paths: BindingPaths) -> bool:
        """Find physical cells for all paths; return whether there are enough."""
        return all(map(self._bind_preassigned, paths.preassigned)) and all(map(self._bind_inside, paths.inside))

    def _bind_preassigned(self, to_bind: ToBind) -> bool:
        level = to_bind.cell.level
        lowest = next((each for each in range(level, self.free.top + 1) if self.free.count(each)), None)
        if lowest is not None and self._split_down(to_bind, lowest):
            self.owned_free[level] -= 1
            return True
        self.split_further = True
        return self._split_one(to_bind) if self.one_by_one else self._split_spare(to_bind)

    def _bind_inside(self, cells: list[ToBind]) -> bool:
        parent = cells[0].cell.parent
        above = parent.physical if parent else None
        return above is not None and self._match(cells, above.children) is not None

    def _split_down(self, to_bind: ToBind, level: int) -> bool:
        """Bind a cell to a free one of its level below the free cells of `level`."""
        if level == to_bind.cell.level:
            return self._take(to_bind, self.free.candidates(level))
        for cell in self._to_split(level):
            self.free.append(level - 1, cell.children)
            if self._split_down(to_bind, level - 1):
                self.free.remove(cell)
                return True
            self.free.clear(level - 1)
        return False

    def _to_split(self, level: int) -> Iterable[PhysicalCell]:
        """Return the free cells of a level that may be split. One by one, those with the most suggested nodes come first: of the
        others only other VCs can use what is left."""
        usable, suggested = self._usable(self.free.candidates(level)), self.suggested
        if suggested is None or not self.one_by_one:
            return usable
        return sorted(usable, key=lambda cell: -sum(name in suggested for name in cell.nodes))

    def _take(self, to_bind: ToBind, candidates: Iterable[PhysicalCell]) -> bool:
        for cell in self._usable(candidates):
            if self._match_below(to_bind, cell):
                self.free.remove(cell)
                self.picked.append(cell)
                return True
        return False

    def _split_spare(self, to_bind: ToBind) -> bool:
        """Split cells of higher levels that no VC can need, the lowest level first, until the cell can be bound."""
        level = to_bind.cell.level
        spare = self._spare()
        for above in range(level + 1, self.free.top + 1):
            count = min(self.free.count(above), spare[above])
            if count <= 0:
                continue
            cells: Sequence[PhysicalCell] = self.free.first(above, count)
            for _ in range(above - level):
                cells = [child for cell in cells for child in cell.children]
            self.free.prepend(level, cells)
            if self._take(to_bind, list(self.free.candidates(level))):
                return True
        return False

    def _split_one(self, to_bind: ToBind) -> bool:
        """Split one cell, if no level above the wanted one loses a cell that a VC can need; its other parts stay whole."""
        level = to_bind.cell.level
        for above in range(level + 1, highest_split(self._spare(), level) + 1):
            for cell in list(self._to_split(above)):
                if self._take_inside(to_bind, cell):
                    self.owned_free[level] -= 1
                    return True
        return False

    def _spare(self) -> list[int]:
        return splittable(self.chain, [self.free.count(each) for each in range(self.free.top + 1)], self.owned_free)

    def _take_inside(self, to_bind: ToBind, whole: PhysicalCell) -> bool:
        for cell in self._usable(_descendants(whole, to_bind.cell.level)):
            if self._match_below(to_bind, cell):
                self.free.remove(whole)
                for part in _others(cell, whole):
                    self.free.append(part.level, [part])
                self.picked.append(cell)
                return True
        return False

    def is_safe(self, free: Sequence[int], owned_free: Sequence[int]) -> bool:
        """Whether the picked cells leave enough for all VCs; the numbers by level are those before the search."""
        after, owned, split = list(free), list(owned_free), set[PhysicalCell]()
        for cell in self.picked:
            owned[cell.level] -= 1
            while cell.parent is not None and not cell.parent.split and cell.parent not in split:
                split.add(cell.parent)
                after[cell.level] += len(cell.parent.children) - 1
                cell = cell.parent
            after[cell.level] -= 1
        return min(splittable(self.chain, after, owned)) >= 0

    def _usable(self, cells: Iterable[PhysicalCell]) -> Iterable[PhysicalCell]:
        usable = (cell for cell in cells if cell.usable)
        if self.refused:
            usable = (cell for cell in usable if cell not in self.refused)
        suggested = self.suggested
        return usable if suggested is None else (cell for cell in usable if not suggested.isdisjoint(cell.nodes))

    def _usable_of(self, cells: Iterable[PhysicalCell]) -> list[PhysicalCell]:
        """Return all that `_usable` yields. Faster for the few cells inside of one."""
        usable = [cell for cell in cells if cell.virtual is None and (cell.healthy or len(cell.nodes) > 1)]
        if self.refused:
            usable = [cell for cell in usable if cell not in self.refused]
        suggested = self.suggested
        return usable if suggested is None else [cell for cell in usable if not suggested.isdisjoint(cell.nodes)]

    def _match_below(self, to_bind: ToBind, cell: PhysicalCell) -> bool:
        if to_bind.cell in self.only and self.only[to_bind.cell].isdisjoint(cell.nodes):
            return False
        if cell.level == LEAF_LEVEL:
            self.bindings[to_bind.cell] = cell
            return True
        return self._match(to_bind.children, cell.children) is not None

    def _match(self, cells: Sequence[ToBind], candidates: Iterable[PhysicalCell]) -> list[PhysicalCell] | None:
        """Find a different candidate for each cell, with everything below it; the first solution in lexical order.

        Whether a candidate suits a cell does not depend on the other choices, so that each pair is tried once.
        """
        usable = self._usable_of(candidates)
        if len(usable) < len(cells):
            return None
        usable.sort(key=opportunistic_of)
        if usable[0].level > LEAF_LEVEL:
            return self._assigned(cells, usable, 0, set())
        self.bindings.update(zip([each.cell for each in cells], usable, strict=False))
        return usable[: len(cells)]

    def _assigned(
        self, cells: Sequence[ToBind], usable: Sequence[PhysicalCell], at: int, taken: set[int]
    ) -> list[PhysicalCell] | None:
        if at == len(cells):
            return []
        for number, cell in enumerate(usable):
            if number not in taken and self._match_below(cells[at], cell):
                taken.add(number)
                rest = self._assigned(cells, usable, at + 1, taken)
                if rest is not None:
                    return [cell, *rest]
                taken.remove(number)
        return None


def splittable(chain: CellChain, free: Sequence[int], owned_free: Sequence[int]) -> list[int]:
    """Return for each level how many free cells may be split so that all VCs can still receive their cells; index 0 is unused.

    Without bad hardware no number is below 0; it is the safety condition of the assignment.

    Args:
        chain: The chain.
        free: Free cells of each level.
        owned_free: Cells of each level that VCs own and do not use.
    """
    spare, above = [0] * (chain.top + 1), 0
    for level in range(chain.top, LEAF_LEVEL - 1, -1):
        spare[level] = free[level] - owned_free[level] + above
        above = spare[level] * chain.levels[level - 1].children
    return spare


def highest_split(spare: Sequence[int], level: int) -> int:
    """Return the highest level of which a free cell may be split for a cell of `level`, if `spare` cells of each level may be.

    A split takes one of the splittable cells of each level between.
    """
    above = level + 1
    while above < len(spare) and spare[above] > 0:
        above += 1
    return above - 1


def _descendants(cell: PhysicalCell, level: int) -> list[PhysicalCell]:
    cells = [cell]
    while cells[0].level > level:
        cells = [child for each in cells for child in each.children]
    return cells


def _others(cell: PhysicalCell, whole: PhysicalCell) -> list[PhysicalCell]:
    """Return what remains of `whole` without a cell inside, in the largest parts."""
    parts: list[PhysicalCell] = []
    while cell is not whole and cell.parent is not None:
        parts += [child for child in cell.parent.children if child is not cell]
        cell = cell.parent
    return parts
