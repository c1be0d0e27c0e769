"""The cells of gangs: what is allocated, reserved and released when a gang starts, ends, preempts, or is preempted lazily.

Lazy preemption takes a gang's virtual cells and leaves it its GPUs: it goes on as an opportunistic one, until the GPUs are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup, GroupState, VirtualPods, zip_pods
from tiresias.scheduler.virtual_clusters.cell import (
    FREE,
    MAX_GUARANTEED,
    OPPORTUNISTIC,
    LeafState,
    PhysicalCell,
    VirtualCell,
    leaves_of,
)
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest


class GangCells:
    """The groups and their cells.

    Attributes:
        cells: The cells.
        groups: Groups by name.
        lazy_preemptions: How often a group has lost its virtual cells and not got them back by `revert`.
    """

    def __init__(self, cells: CellState) -> None:
        """Start without groups."""
        self.cells = cells
        self.groups: dict[str, AffinityGroup] = {}
        self.lazy_preemptions = 0

    def allocate(self, bound: BoundGang) -> AffinityGroup:
        """Allocate the GPUs of a decision, or of a job that runs already.

        The virtual cells are looked up again from the GPUs, so that both cases are one. A GPU that the specification no longer has
        is skipped. A gang for which the VC has no cells, or that takes a cell which another VC owns, is preempted lazily.
        """
        group, lazily = AffinityGroup.empty(bound.request), False
        for at, pod in enumerate(bound.pods):
            for index, number in enumerate(pod.leaves):
                leaf = self.cells.physical.leaf(bound.chain, pod.node, number)
                if leaf is None or leaf.user is not None:
                    continue
                group.physical[at][index] = leaf
                preassigned = pod.preassigned[index] if index < len(pod.preassigned) else None
                virtual = None
                if preassigned == "":
                    group.virtual = None
                elif group.virtual is not None and not lazily:
                    virtual = group.virtual[at][index] = self._virtual(leaf, preassigned, group)
                    lazily = virtual is None
                safe = self.cells.allocate(leaf, virtual, group.request.priority)
                leaf.user, leaf.state = group, LeafState.USED
                lazily = lazily or not safe
        if lazily or not self._keep_safe(group):
            self.preempt_lazily(group, group.name)
            self._keep_safe(group)
        self.groups[group.name] = group
        return group

    def _keep_safe(self, group: AffinityGroup) -> bool:
        """Doom other cells, where those that are doomed are needed; return whether all VCs can still receive their cells."""
        if not self.cells.keeps_guarantees or self.cells.is_safe:
            return True
        chains = dict.fromkeys(leaf.chain.name for leaf in group.leaves())
        return min(map(self.cells.keep_safe, chains), default=True)

    def _virtual(self, leaf: PhysicalCell, preassigned: str | None, group: AffinityGroup) -> VirtualCell | None:
        """Find the virtual leaf for a GPU of a guaranteed gang. Gangs that use it or its preassigned cell are preempted lazily."""
        level = leaf.chain.level_of(preassigned) if preassigned else None
        virtual = _counterpart(leaf, self._owned(leaf, level, group), level, group.request.priority) if level else None
        if virtual is None or (virtual.cluster, virtual.preassigned.level) != (group.cluster, level):
            return None
        if leaf.in_free_list and virtual.preassigned.priority > FREE:
            self._preempt_cell(virtual.preassigned, group.name)
        elif virtual.priority > FREE:
            self._preempt_cell(virtual, group.name)
        return virtual if can_be_bound(leaf, virtual) else None

    def _owned(self, leaf: PhysicalCell, level: int, group: AffinityGroup) -> Sequence[VirtualCell]:
        """Return the preassigned cells of a level that the gang may use."""
        tree = self.cells.clusters.get(group.cluster)
        if tree is None:
            return ()
        if group.request.pinned:
            pinned = tree.pinned.get(group.request.pinned)
            return (pinned,) if pinned is not None and pinned.level == level else ()
        return tree.preassigned[leaf.chain.name][level] if leaf.chain.name in tree.preassigned else ()

    def _preempt_cell(self, cell: VirtualCell, preemptor: str) -> None:
        for leaf in leaves_of(cell):
            used = leaf.physical if isinstance(leaf, VirtualCell) else None
            if used is not None and used.user is not None and used.state == LeafState.USED:
                self.preempt_lazily(used.user, preemptor)

    def preempt_lazily(self, group: AffinityGroup, preemptor: str) -> VirtualPods | None:
        """Take the virtual cells of a group; it keeps its GPUs. Returns the cells, for `revert`."""
        for leaf, virtual in zip_pods(group.physical, group.virtual):
            if leaf is not None and virtual is not None and leaf.state == LeafState.USED:
                self.cells.release(leaf)
                self.cells.allocate(leaf, None, OPPORTUNISTIC)
        before, group.virtual = group.virtual, None
        self.lazy_preemptions += 1
        group.lazily_preempted_by = preemptor
        return before

    def revert(self, group: AffinityGroup, virtual: VirtualPods) -> bool:
        """Give a group its virtual cells back; False: one of them cannot be bound any more, and it stays preempted lazily."""
        pairs = list(zip_pods(group.physical, virtual))
        group.virtual, group.lazily_preempted_by = virtual, ""
        self.lazy_preemptions -= 1
        for leaf, cell in pairs:
            if leaf is not None:
                self.cells.release(leaf)
                self._give_back(leaf, cell, group)
        self._keep_safe(group)
        return group.virtual is not None

    def _give_back(self, leaf: PhysicalCell, virtual: VirtualCell | None, group: AffinityGroup) -> None:
        """Allocate a GPU to the group that uses it. If its virtual cell cannot be bound, the group is preempted lazily."""
        if not self._take_over(leaf, virtual if group.virtual else None, group.request.priority):
            self.cells.allocate(leaf, None, OPPORTUNISTIC)
            self.preempt_lazily(group, group.name)

    def _take_over(self, leaf: PhysicalCell, virtual: VirtualCell | None, priority: int) -> bool:
        """Allocate a GPU that has just been released; False, and nothing has changed: its virtual cell cannot be bound.

        The release may have doomed a cell that is in the way. Then other cells are doomed instead.
        """
        if virtual is None or not self.cells.keeps_guarantees or can_be_bound(leaf, virtual):
            self.cells.allocate(leaf, virtual, priority)
            return True
        state = self.cells.chains[leaf.chain.name]
        self.cells.bad.release_unused(state)
        free = can_be_bound(leaf, virtual)
        if free:
            self.cells.allocate(leaf, virtual, priority)
        self.cells.bad.doom_all(state)
        return free

    def delete(self, group: AffinityGroup) -> None:
        """Release the cells of a group that uses them. What another group has reserved becomes that group's."""
        for leaf in group.leaves():
            leaf.user = None
            if leaf.state == LeafState.USED:
                self.cells.release(leaf)
                leaf.state = LeafState.FREE
            else:
                leaf.state = LeafState.RESERVED
        del self.groups[group.name]

    def reserve(
        self, request: GangRequest, leaves: Sequence[Sequence[PhysicalCell]], virtual: Sequence[Sequence[VirtualCell]]
    ) -> AffinityGroup | None:
        """Allocate cells to a group that preempts those who use them, so that no other one preempts the same.

        None, and nothing is reserved: the first cells have doomed others of the group, or cells that other VCs own would be taken.
        """
        group = AffinityGroup(
            request, [list(pod) for pod in leaves], [list(pod) for pod in virtual], GroupState.PREEMPTING
        )
        for pod, cells in zip(group.physical, group.virtual or (), strict=True):
            for at, (leaf, cell) in enumerate(zip(pod, cells, strict=True)):
                if not self._reserve(leaf, cell, group):
                    pod[at] = cells[at] = None
        self.groups[group.name] = group
        if self.cells.keeps_guarantees and not (group.is_whole and self._keep_safe(group)):
            self.cancel(group)
            return None
        return group

    def _reserve(self, leaf: PhysicalCell | None, virtual: VirtualCell | None, group: AffinityGroup) -> bool:
        if leaf is None or virtual is None:
            return False
        used, user = leaf.state == LeafState.USED, leaf.user
        if user is not None:
            self.cells.release(leaf)
        if not self._take_over(leaf, virtual, group.request.priority):
            if user is not None:
                self._give_back(leaf, user.virtual_of(leaf), user)
            return False
        if user is not None:
            user.state = GroupState.BEING_PREEMPTED
        leaf.reserver = group
        leaf.state = LeafState.RESERVING if used else LeafState.RESERVED
        return True

    def cancel(self, group: AffinityGroup) -> None:
        """Cancel a preemption: the groups that use the cells get them back."""
        returned = []
        for leaf in group.leaves():
            self.cells.release(leaf)
            leaf.reserver = None
            if leaf.state == LeafState.RESERVING and leaf.user is not None:
                leaf.state = LeafState.USED
                self._give_back(leaf, leaf.user.virtual_of(leaf), leaf.user)
                returned.append(leaf.user)
            else:
                leaf.state = LeafState.FREE
        del self.groups[group.name]
        _restore(returned)
        self._keep_safe(group)

    def finish_preemption(self, group: AffinityGroup) -> None:
        """The reserved cells are free: the group uses them."""
        for leaf in group.leaves():
            leaf.reserver, leaf.user, leaf.state = None, group, LeafState.USED
        group.state = GroupState.ALLOCATED


def _restore(groups: Iterable[AffinityGroup]) -> None:
    """Groups of which no cell is reserved any more are not being preempted."""
    for group in dict.fromkeys(groups):
        if all(leaf.state == LeafState.USED for leaf in group.leaves()):
            group.state = GroupState.ALLOCATED


def _counterpart(cell: PhysicalCell, cells: Sequence[VirtualCell], level: int, priority: int) -> VirtualCell | None:
    """Return the virtual cell for a physical one: its own, else one of a preassigned cell of a level.

    Args:
        cell: The physical cell.
        cells: Preassigned cells of the VC on that level.
        level: The level.
        priority: Cells of lower priorities may be taken.
    """
    if cell.virtual is not None:
        return cell.virtual
    if cell.level == level:
        return _lowest_priority(cells, priority)
    above = _counterpart(cell.parent, cells, level, priority) if cell.parent else None
    return _lowest_priority(above.children, priority) if above else None


def _lowest_priority(cells: Iterable[VirtualCell], priority: int) -> VirtualCell | None:
    """Return the first free cell that is not bound, else the one of the lowest priority below `priority`."""
    found, lowest = None, MAX_GUARANTEED
    for cell in cells:
        if cell.priority == FREE:
            if cell.physical is None:
                return cell
        elif cell.priority < priority and cell.priority < lowest:
            found, lowest = cell, cell.priority
    return found


def can_be_bound(leaf: PhysicalCell, virtual: VirtualCell) -> bool:
    """Whether each cell above a virtual leaf is bound to the counterpart above the physical one, or both are free."""
    physical: PhysicalCell | None = leaf
    cell: VirtualCell | None = virtual
    while physical is not None and cell is not None:
        if cell.physical is physical:
            return True
        if cell.physical is not None or physical.virtual is not None:
            return False
        if cell.parent is None:
            return physical.in_free_list
        physical, cell = physical.parent, cell.parent
    return False
