"""Bad hardware: bad nodes, the cells that contain them, and the VCs' cells that no healthy hardware is left for.

A cell is bad if one of its leaves is. A bad cell inside an allocated one is bound to a virtual cell, so that the VC's view has it.
Where the healthy free cells are fewer than the unused cells of a VC, some of those are doomed to be bad: they are bound to bad
cells until enough others are healthy, and no job is placed on them in vain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tiresias.scheduler.virtual_clusters.cell import MIN_GUARANTEED, PhysicalCell, VirtualCell, bind, unbind
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL
from tiresias.scheduler.virtual_clusters.chain_state import ChainState

if TYPE_CHECKING:
    from tiresias.scheduler.virtual_clusters.cell_state import CellState


class BadCells:
    """The health of nodes and cells.

    Attributes:
        nodes: Names of the bad nodes.
    """

    def __init__(self, cells: CellState) -> None:
        """Start without bad nodes."""
        self._cells = cells
        self.nodes: set[str] = set()

    def node_bad(self, node: str) -> None:
        """Mark all GPUs of a node bad. A node that no cell has, or that is bad already, changes nothing."""
        if node in self._cells.physical.leaves and node not in self.nodes:
            self.nodes.add(node)
            for leaf in self._cells.physical.leaves[node]:
                self._set_bad(leaf)

    def node_healthy(self, node: str) -> None:
        """Mark all GPUs of a node healthy."""
        if node in self.nodes:
            self.nodes.remove(node)
            for leaf in self._cells.physical.leaves[node]:
                self._set_healthy(leaf)

    def _set_bad(self, cell: PhysicalCell) -> None:
        """Mark a cell and the cells above it, the topmost one first bound."""
        if not cell.healthy:
            return
        _set_health(cell, healthy=False)
        if cell.parent is not None:
            self._set_bad(cell.parent)
        if cell.in_free_list:
            state = self._cells.chains[cell.chain.name]
            state.bad_free[cell.level].append(cell)
            if state.all_owned_free[cell.level] > state.healthy_left(cell.level):
                self.doom(state, cell.level)
        elif cell.virtual is None and not cell.split:
            _bind_to_sibling(cell)

    def _set_healthy(self, cell: PhysicalCell) -> None:
        """Mark a cell and, where all their children are healthy, the cells above it."""
        while not cell.healthy:
            _set_health(cell, healthy=True)
            if cell.in_free_list:
                state = self._cells.chains[cell.chain.name]
                state.bad_free[cell.level].remove(cell)
                self.undoom(state, cell.level)
            elif cell.virtual is not None and not cell.pinned:
                self._set_bound_healthy(cell, cell.virtual)
            if cell.parent is None or not all(child.healthy for child in cell.parent.children):
                return
            cell = cell.parent

    def _set_bound_healthy(self, cell: PhysicalCell, virtual: VirtualCell) -> None:
        """Remove a binding that only showed that the cell was bad. A doomed cell in use is an ordinary one from now on."""
        unused = cell.priority < MIN_GUARANTEED
        if unused:
            unbind(cell)
        if virtual.parent is None and self._remove_doomed(cell, virtual.cluster) and unused:
            self._cells.release_preassigned(cell, virtual.cluster, doomed=True)

    def _remove_doomed(self, cell: PhysicalCell, vc: str) -> bool:
        state = self._cells.chains[cell.chain.name]
        doomed = state.doomed[vc][cell.level]
        if cell not in doomed:
            return False
        _discard(doomed, cell)
        state.doomed_count[cell.level] -= 1
        return True

    def doom(self, state: ChainState, level: int) -> None:
        """Bind unused cells of the VCs to bad ones, as far as there are fewer healthy ones than a VC owns."""
        if not state.bad_free[level]:
            return
        for vc, owned in state.owned_free.items():
            while owned[level] > state.healthy_left(level) and state.bad_free[level]:
                virtual = _unbound(self._cells.clusters[vc].preassigned[state.chain.name][level])
                if virtual is None:
                    break
                cell = self._to_doom(state, level)
                bind(cell, virtual)
                state.doomed[vc][level].append(cell)
                state.doomed_count[level] += 1
                self._cells.allocate_preassigned(cell, vc, doomed=True)

    def _to_doom(self, state: ChainState, level: int) -> PhysicalCell:
        return state.bad_to_spare(level)

    def undoom(self, state: ChainState, level: int) -> None:
        """Release doomed cells that are not in use, as far as there are healthy ones."""
        if not state.doomed_count[level]:
            return
        for vc, owned in state.owned_free.items():
            while owned[level] < state.healthy_left(level):
                cell = next((each for each in state.doomed[vc][level] if each.priority < MIN_GUARANTEED), None)
                if cell is None:
                    break
                self._release_doomed(cell, vc)

    def _release_doomed(self, cell: PhysicalCell, vc: str) -> None:
        unbind(cell)
        self._remove_doomed(cell, vc)
        self._cells.release_preassigned(cell, vc, doomed=True)

    def release_unused(self, state: ChainState) -> None:
        """Release all doomed cells that are not in use. Call `doom_all` afterwards."""
        unused = [
            (cell, vc)
            for vc, levels in state.doomed.items()
            for cells in levels
            for cell in cells
            if cell.priority < MIN_GUARANTEED
        ]
        for cell, vc in unused:
            self._release_doomed(cell, vc)

    def doom_all(self, state: ChainState) -> None:
        """Doom cells of all levels, where that is necessary."""
        for level in range(state.chain.top, LEAF_LEVEL - 1, -1):
            self.doom(state, level)

    def bind_below(self, cell: PhysicalCell) -> None:
        """Bind a bad cell that has been allocated, and the bad cells inside."""
        free = self._cells.chains[cell.chain.name].bad_free[cell.level]
        if cell in free:
            free.remove(cell)
        if cell.virtual is None:
            _bind_to_sibling(cell)
        for child in _bad(cell.children):
            self.bind_below(child)

    def unbind_below(self, cell: PhysicalCell) -> None:
        """Remove the bindings of a bad cell that is free again, and of the bad cells inside."""
        self._cells.chains[cell.chain.name].bad_free[cell.level].append(cell)
        if cell.virtual is not None:
            unbind(cell)
        for child in _bad(cell.children):
            self.unbind_below(child)


def _set_health(cell: PhysicalCell, *, healthy: bool) -> None:
    cell.healthy = healthy
    if cell.view is not None:
        cell.view.set_hardware(cell.row, cell)
    if cell.virtual is not None and cell.virtual.view is not None:
        cell.virtual.view.set_hardware(cell.virtual.row, cell)


def _bad(cells: Iterable[PhysicalCell]) -> Iterable[PhysicalCell]:
    return (cell for cell in cells if not cell.healthy)


def _bind_to_sibling(cell: PhysicalCell) -> None:
    """Bind a bad cell to an unbound child of the virtual cell to which its parent is bound."""
    above = cell.parent.virtual if cell.parent else None
    virtual = _unbound(above.children) if above else None
    if virtual is not None:
        bind(cell, virtual)


def _unbound(cells: Iterable[VirtualCell]) -> VirtualCell | None:
    return next((cell for cell in cells if cell.physical is None), None)


def _discard(cells: list[PhysicalCell], cell: PhysicalCell) -> None:
    """Remove a cell; the last one takes its position."""
    cells[cells.index(cell)] = cells[-1]
    cells.pop()
