"""The cells of a cluster and of its VCs, and the allocation of leaves and preassigned cells (HiveD, OSDI 2020).

`allocate` and `release` bind and free one GPU. With the first GPU of a preassigned cell a physical cell leaves the free list, with
the last one it returns. `bad_cells.py` keeps the bindings of bad hardware up to date.
"""

from __future__ import annotations

from functools import cached_property

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.bad_cells import BadCells
from tiresias.scheduler.virtual_clusters.cell import (
    FREE,
    MIN_GUARANTEED,
    OPPORTUNISTIC,
    PhysicalCell,
    VirtualCell,
    bind_upward,
    set_priority,
    unbind_upward,
)
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL, CellChain, chains_of
from tiresias.scheduler.virtual_clusters.chain_state import ChainState
from tiresias.scheduler.virtual_clusters.physical_tree import PhysicalTree, physical_tree
from tiresias.scheduler.virtual_clusters.specification import CellSpecification
from tiresias.scheduler.virtual_clusters.virtual_tree import VirtualTree, virtual_trees


class CellState:
    """Physical and virtual cells with their bindings.

    Attributes:
        spec: The specification.
        levels: The chains by name.
        chains: Their state.
        physical: The physical cells.
        clusters: The virtual cells of each VC.
        bad: The bad nodes.
        keeps_guarantees: Whether a preemption while hardware is bad is checked, and searched again where it would reserve cells of
            other VCs, or one cell twice. The published method does not.
    """

    keeps_guarantees = True
    bad_cells: type[BadCells] = BadCells

    def __init__(self, spec: CellSpecification) -> None:
        """Build all cells; each node is healthy. Raises UsageError for an invalid specification."""
        self.spec = spec
        self.levels: dict[str, CellChain] = chains_of(spec)
        self.physical: PhysicalTree = physical_tree(spec, self.levels)
        self.clusters: dict[str, VirtualTree] = virtual_trees(spec, self.levels, self.physical.pinned)
        self.chains = {name: self._chain(name) for name in self.levels}
        self.bad = self.bad_cells(self)
        self._bind_pinned()

    def _chain(self, name: str) -> ChainState:
        owned = {vc: tree.owned[name] for vc, tree in self.clusters.items() if name in tree.owned}
        return ChainState(self.levels[name], self.physical.cells[name], owned)

    def _bind_pinned(self) -> None:
        """Bind the pinned cells that VCs own; others are ordinary cells. Raises UsageError if the rest is too small for them."""
        owned = {identifier: cell for tree in self.clusters.values() for identifier, cell in tree.pinned.items()}
        for identifier, physical in self.physical.pinned.items():
            physical.pinned = identifier if identifier in owned else ""
        for identifier, virtual in owned.items():
            physical = self.physical.pinned[identifier]
            if not physical.in_free_list:
                raise UsageError(
                    f"virtual cluster {virtual.cluster}: the pinned cell {identifier} overlaps another one"
                )
            self.allocate_preassigned(physical, virtual.cluster)
            bind_upward(physical, virtual)
        for state in self.chains.values():
            state.check("the pinned cells and the larger cells that they own")

    @cached_property
    def pinned_nodes(self) -> frozenset[str]:
        """The nodes in pinned cells that VCs own."""
        owned = [cell for cell in self.physical.pinned.values() if cell.pinned and cell.level >= cell.chain.node_level]
        return frozenset(node for cell in owned for node in cell.nodes)

    def allocate(self, leaf: PhysicalCell, virtual: VirtualCell | None, priority: int) -> bool:
        """Give a GPU to a job: of a VC's cell, or opportunistically without one.

        Returns:
            Whether all VCs can still receive their cells. Buddy allocation makes sure of it; a recovered job of another
            specification can break it.
        """
        priority = priority if virtual is not None else OPPORTUNISTIC
        _use(leaf, priority)
        if virtual is None:
            self.chains[leaf.chain.name].count_opportunistic(leaf, 1)
            return True
        _use(virtual, priority)
        new = virtual.preassigned.physical is None
        if leaf.virtual is None:  # a bad cell can be bound already
            bind_upward(leaf, virtual)
        preassigned = virtual.preassigned.physical
        return not new or preassigned is None or self.allocate_preassigned(preassigned, virtual.cluster)

    def release(self, leaf: PhysicalCell) -> None:
        """Take a GPU back."""
        if leaf.priority == OPPORTUNISTIC:
            self.chains[leaf.chain.name].count_opportunistic(leaf, -1)
        elif leaf.virtual is not None:
            self._release_virtual(leaf, leaf.virtual)
        _stop_using(leaf)

    def _release_virtual(self, leaf: PhysicalCell, virtual: VirtualCell) -> None:
        _stop_using(virtual)
        preassigned = virtual.preassigned.physical
        if leaf.healthy:  # a bad cell stays bound, so that the VC's view shows it
            unbind_upward(leaf)
        unused = virtual.preassigned.priority < MIN_GUARANTEED
        if preassigned is None or not unused or preassigned.pinned:
            return
        if self._doomed(preassigned, virtual):
            self.bad.undoom(self.chains[preassigned.chain.name], preassigned.level)
        else:
            self.release_preassigned(preassigned, virtual.cluster)

    def _doomed(self, cell: PhysicalCell, virtual: VirtualCell) -> bool:
        return cell in self.chains[cell.chain.name].doomed[virtual.cluster][cell.level]

    def allocate_preassigned(self, cell: PhysicalCell, vc: str, *, doomed: bool = False) -> bool:
        """Allocate a physical cell to a preassigned cell of a VC; return whether all VCs can still receive their cells."""
        state, level = self.chains[cell.chain.name], cell.level
        state.count_owned(vc, level, -1)
        reached, safe = state.take(cell), True
        for parent in _above(cell, reached):
            state.left[parent.level] -= 1
            safe = safe and state.left[parent.level] >= state.all_owned_free[parent.level]
            if not parent.healthy:
                state.bad_free[parent.level].remove(parent)
            else:
                self.bad.doom(state, parent.level)
        if cell.healthy:
            self.bad.doom(state, level)
        else:
            self.bad.bind_below(cell)
            if not doomed:
                self.bad.undoom(state, level)
        inside = 1
        for below in range(level - 1, LEAF_LEVEL - 1, -1):
            inside *= cell.chain.at(below + 1).children
            state.left[below] -= inside
            safe = safe and state.left[below] >= state.all_owned_free[below]
            if not doomed:
                self.bad.doom(state, below)
        return safe

    @property
    def is_safe(self) -> bool:
        """Whether all VCs can still receive their cells, of all chains."""
        return all(state.is_safe for state in self.chains.values())

    def keep_safe(self, chain: str) -> bool:
        """Return whether all VCs can still receive their cells of a chain, if necessary with other doomed cells."""
        state = self.chains[chain]
        if state.is_safe:
            return True
        self.bad.release_unused(state)
        self.bad.doom_all(state)
        return state.is_safe

    def release_preassigned(self, cell: PhysicalCell, vc: str, *, doomed: bool = False) -> None:
        """Take a physical cell back from a preassigned cell of a VC."""
        state, level = self.chains[cell.chain.name], cell.level
        state.count_owned(vc, level, 1)
        for parent in _above(cell, state.give(cell)):
            state.left[parent.level] += 1
            if not parent.healthy:
                state.bad_free[parent.level].append(parent)
            else:
                self.bad.undoom(state, parent.level)
        if cell.healthy:
            self.bad.undoom(state, level)
        else:
            self.bad.unbind_below(cell)
            if not doomed:
                self.bad.doom(state, level)
        inside = 1
        for below in range(level - 1, LEAF_LEVEL - 1, -1):
            inside *= cell.chain.at(below + 1).children
            state.left[below] += inside
            if not doomed:
                self.bad.undoom(state, below)


def _above(cell: PhysicalCell, level: int) -> list[PhysicalCell]:
    """Return the cells above a cell, up to a level."""
    found = []
    while cell.level < level and cell.parent is not None:
        cell = cell.parent
        found.append(cell)
    return found


def _use(leaf: PhysicalCell | VirtualCell, priority: int) -> None:
    set_priority(leaf, priority)
    host = leaf.host
    if host.view is not None:
        host.view.count(host.row, priority, 1)


def _stop_using(leaf: PhysicalCell | VirtualCell) -> None:
    host = leaf.host
    if host.view is not None:
        host.view.count(host.row, leaf.priority, -1)
    set_priority(leaf, FREE)
