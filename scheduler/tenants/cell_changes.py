"""Changes of cells that one decision makes, and takes back at its end: the next snapshot shows which of them were carried out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from typing import cast

from tiresias.scheduler.tenants.cell_occupancy import GUARANTEED, CellOccupancy
from tiresias.scheduler.tenants.shown_gangs import MOVABLE
from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup, VirtualPods
from tiresias.scheduler.virtual_clusters.buddy_allocation import NO_LIMITS, OnlyNodes
from tiresias.scheduler.virtual_clusters.cell import FREE, Cell, PhysicalCell, VirtualCell, hold, leaves_of, let_go
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL
from tiresias.scheduler.virtual_clusters.gang_cells import can_be_bound
from tiresias.scheduler.virtual_clusters.gang_requests import GangRequest
from tiresias.scheduler.virtual_clusters.leaf_choice import closest
from tiresias.scheduler.virtual_clusters.placement_search import ChosenSearch, FoundPlacement

ChosenNodes = Sequence[tuple[VirtualCell, int]]  # virtual nodes with the number of GPUs on each


class CellChanges:
    """The changes of one decision, in order.

    Args:
        occupancy: The cells, which `undo` leaves as they were.
    """

    def __init__(self, occupancy: CellOccupancy) -> None:
        self._occupancy = occupancy
        self._clusters = occupancy.clusters
        self._undo: list[Callable[[], object]] = []

    def demote(self, name: str, preemptor: str) -> None:
        """Take the cells of a gang, which keeps its GPUs: it is opportunistic from now on (HiveD's lazy preemption)."""
        group = self._clusters.groups[name]
        before = self._clusters.gangs.preempt_lazily(group, preemptor)
        if before is not None:
            self._undo.append(partial(self._revert, group, before))
            self.weigh(name, MOVABLE - 1)

    def _revert(self, group: AffinityGroup, before: VirtualPods) -> None:
        """Give a gang its cells back. A bad node may have been bound to one of them meanwhile; then all cells are outdated."""
        if not self._clusters.gangs.revert(group, before):
            self._occupancy.outdated = True

    def promote(self, name: str, chosen: ChosenNodes) -> bool:
        """Give an opportunistic gang cells of its VC where it runs.

        Returns:
            False, and nothing has changed, if the chosen virtual nodes cannot be bound there without a cell that another VC needs.
        """
        pods = [[leaf for leaf in pod if leaf is not None] for pod in self._clusters.groups[name].physical]
        left, first = sorted(chosen, key=lambda each: each[1]), len(self._undo)
        if not any(_fits(pods[0], *each) for each in left):  # mostly: nothing has to be taken back
            return False
        self.weigh(name, 1 - self._occupancy.shown[name].weight)
        for leaves in pods:
            place = next((at for at, each in enumerate(left) if _fits(leaves, *each)), None)
            if place is None or not self._promote_pod(leaves, left.pop(place)[0]):
                self.take_back(first)
                return False
        return True

    def _promote_pod(self, leaves: Sequence[PhysicalCell], node: VirtualCell) -> bool:
        """Bind the leaves of one node. False: they lie in more cells below the node than there are, or other VCs would have too few
        cells left; what was bound remains to be taken back."""
        cells = self._clusters.cells
        for leaf in leaves:
            virtual = next((each for each in _free_leaves(node) if can_be_bound(leaf, each)), None)
            if virtual is None:
                return False
            cells.release(leaf)
            cells.allocate(leaf, virtual, GUARANTEED)
            self._undo += [partial(cells.allocate, leaf, None, GUARANTEED), partial(cells.release, leaf)]
        return min(cells.chains[leaves[0].chain.name].splittable()[1:]) >= 0

    def weigh(self, name: str, weight: int) -> None:
        """Avoid the GPUs of an opportunistic gang by so much more."""
        group = self._clusters.groups[name]
        self._occupancy.weigh(group, weight)
        self._undo.append(partial(self._occupancy.weigh, group, -weight))

    def search(
        self,
        chosen: ChosenNodes,
        suggested: Set[str] | None,
        refused: Set[PhysicalCell] = frozenset(),
        only: OnlyNodes = NO_LIMITS,
        also: Iterable[VirtualCell] = (),
    ) -> ChosenSearch:
        """Return the search for the hardware of virtual nodes. Arguments as of `ChosenSearch`; `also`: other virtual nodes.

        The largest cells choose first. Otherwise a small one could take a part of what was freed for a large one.
        """
        pods = [_nearest_leaves(*each) for each in sorted(chosen, key=lambda each: -each[0].preassigned.level)]
        others = [_nearest_leaves(node, 1)[0] for node in also]
        return ChosenSearch(self._clusters.gangs, pods, suggested, refused, only, others)

    def concerns(self, name: str, search: ChosenSearch) -> bool:
        """Return whether the weight of an opportunistic gang can change what a search finds."""
        one_of_each = {leaf.parent: leaf for leaf in self._clusters.groups[name].leaves()}
        return any(map(search.compares, one_of_each.values()))

    def bind(self, request: GangRequest, search: ChosenSearch, found: FoundPlacement) -> bool:
        """Bind what a search has found. False, and nothing has changed: other VCs would have too few cells, as hardware is bad."""
        if search.is_inside:
            leaves = found.leaves()
            hold(leaves, request.priority)
            self._undo.append(partial(let_go, leaves))
            return True
        group = self._clusters.gangs.reserve(request, found.physical, found.virtual or [])
        if group is not None:
            self._undo.append(partial(self._clusters.gangs.cancel, group))
        return group is not None

    def take_back_last(self) -> None:
        """Take the last change back."""
        self._undo.pop()()

    def undo(self) -> None:
        """Take all changes back, the last one first."""
        self.take_back(0)

    @property
    def made(self) -> int:
        """The number of changes."""
        return len(self._undo)

    def take_back(self, first: int) -> None:
        """Take the changes after so many ones back, the last one first."""
        while len(self._undo) > first:
            self._undo.pop()()


def users(found: FoundPlacement) -> list[AffinityGroup]:
    """Return the gangs on the GPUs of a placement."""
    return list(dict.fromkeys(leaf.user for pod in found.physical for leaf in pod if leaf.user is not None))


def _free_leaves(node: VirtualCell) -> list[VirtualCell]:
    """Return the free leaves of a node. Those in parts that are bound come first, in the order of the hardware, so that the choice
    does not depend on which of several equal parts is bound."""
    free = [leaf for leaf in cast("list[VirtualCell]", leaves_of(node)) if leaf.priority == FREE]
    return sorted(free, key=partial(_place_in, node)) if node.level > LEAF_LEVEL + 1 else free


def _place_in(node: VirtualCell, leaf: VirtualCell) -> tuple[float, ...]:
    """Return the numbers of the hardware of the parts of a node that contain a leaf, from top to bottom."""
    place, cell = list[float](), leaf.parent
    while cell is not None and cell is not node:
        place.append(math.inf if cell.physical is None else cell.physical.number)
        cell = cell.parent
    return tuple(reversed(place))


def _nearest_leaves(node: VirtualCell, gpus: int) -> list[VirtualCell]:
    """Return free leaves of a node that are close to each other."""
    free: list[Cell] = list(_free_leaves(node))
    if len(free) < gpus:
        raise ValueError(f"{node!r} has {len(free)} free GPUs, not {gpus}")
    return cast("list[VirtualCell]", closest(free, gpus))


def _fits(leaves: Sequence[PhysicalCell], node: VirtualCell, gpus: int) -> bool:
    if not leaves or len(leaves) != gpus or leaves[0].chain is not node.chain:
        return False
    return any(can_be_bound(leaves[0], each) for each in _free_leaves(node))
