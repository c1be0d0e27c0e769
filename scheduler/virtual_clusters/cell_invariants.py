"""What must hold in each state of the virtual clusters, checked from scratch: for tests, replays and diagnosis. O(cells)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup, GroupState, zip_pods
from tiresias.scheduler.virtual_clusters.cell import (
    FREE,
    MIN_GUARANTEED,
    OPPORTUNISTIC,
    Cell,
    LeafState,
    PhysicalCell,
    VirtualCell,
    leaves_of,
)
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.scheduler.virtual_clusters.chain_state import ChainState
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters


def violations(clusters: VirtualClusters) -> Iterator[str]:
    """Yield each broken invariant in one line."""
    for group in clusters.groups.values():
        yield from _of_group(group)
    for cells in clusters.cells.physical.cells.values():
        for cell in (cell for level in cells for cell in level):
            yield from _of_physical(cell, clusters.groups)
    for root in _preassigned(clusters.cells):
        yield from _of_virtual(root)
    for state in clusters.cells.chains.values():
        yield from _of_chain(state, clusters.cells)


def _of_group(group: AffinityGroup) -> Iterator[str]:
    preempting = group.state == GroupState.PREEMPTING
    if preempting and not group.is_whole:
        yield f"gang {group.name}: a part of its cells is reserved"
    for leaf, virtual in zip_pods(group.physical, group.virtual):
        if leaf is None:
            continue
        if (leaf.reserver if preempting else leaf.user) is not group:
            yield f"{leaf!r}: gang {group.name} does not hold it"
        holds = preempting or leaf.state == LeafState.USED
        if holds and virtual is not None and (leaf.virtual is not virtual or leaf.priority != group.request.priority):
            yield f"{leaf!r}: not bound to {virtual!r} of gang {group.name}"
        if holds and virtual is None and leaf.priority != OPPORTUNISTIC:
            yield f"{leaf!r}: gang {group.name} has no virtual cell, and its priority is {leaf.priority}"


def _of_physical(cell: PhysicalCell, groups: dict[str, AffinityGroup]) -> Iterator[str]:
    if cell.virtual is not None:
        if cell.virtual.physical is not cell:
            yield f"{cell!r}: bound to {cell.virtual!r}, which is bound to {cell.virtual.physical!r}"
        if cell.healthy and cell.priority < MIN_GUARANTEED and not cell.pinned:
            yield f"{cell!r}: healthy, not in use and bound"
    if cell.healthy != all(child.healthy for child in cell.children) and cell.children:
        yield f"{cell!r}: healthy={cell.healthy}, its children differ"
    yield from _of_leaf(cell, groups) if cell.level == LEAF_LEVEL else _of_inner(cell)


def _of_leaf(leaf: PhysicalCell, groups: dict[str, AffinityGroup]) -> Iterator[str]:
    used, reserved = leaf.user is not None, leaf.reserver is not None
    expected = (LeafState.FREE, LeafState.RESERVED, LeafState.USED, LeafState.RESERVING)[2 * used + reserved]
    if leaf.state != expected:
        yield f"{leaf!r}: state {leaf.state.name}, expected {expected.name}"
    if (leaf.state == LeafState.FREE) != (leaf.priority == FREE):
        yield f"{leaf!r}: state {leaf.state.name} at priority {leaf.priority}"
    for group in (leaf.user, leaf.reserver):
        if group is not None and groups.get(group.name) is not group:
            yield f"{leaf!r}: gang {group.name} is deleted"
    if leaf.opportunistic != (leaf.priority == OPPORTUNISTIC):
        yield f"{leaf!r}: {leaf.opportunistic} opportunistic uses at priority {leaf.priority}"


def _of_inner(cell: Cell) -> Iterator[str]:
    if cell.priority != max(child.priority for child in cell.children):
        yield f"{cell!r}: priority {cell.priority} is not the highest one of its children"
    if isinstance(cell, PhysicalCell) and cell.opportunistic != sum(child.opportunistic for child in cell.children):
        yield f"{cell!r}: opportunistic GPUs miscounted"


def _of_virtual(cell: VirtualCell) -> Iterator[str]:
    physical = cell.physical
    if physical is not None and physical.virtual is not cell:
        yield f"{cell!r}: bound to {physical!r}, which is bound to {physical.virtual!r}"
    if physical is not None and cell.parent is not None and cell.parent.physical is not physical.parent:
        yield f"{cell!r}: its parent and the parent of its physical cell are not bound"
    if cell.priority != FREE and (physical is None or physical.priority < cell.priority):
        yield f"{cell!r}: in use and not bound to a cell in use"
    if cell.children:
        yield from _of_inner(cell)
    for child in cell.children:
        yield from _of_virtual(child)


def _of_chain(state: ChainState, cells: CellState) -> Iterator[str]:
    name = state.chain.name
    free = [list(level) for level in state.free]
    roots = [cell for cell in _preassigned(cells) if cell.chain is state.chain and cell.physical is None]
    unbound = Counter((cell.cluster, cell.level) for cell in roots)
    for level in range(LEAF_LEVEL, state.chain.top + 1):
        covered = [cell for cell in state.cells[level] if cell.in_free_list]
        listed = [cell for cell in covered if cell.parent is None or not cell.parent.in_free_list]
        if set(listed) != set(free[level]):
            yield f"chain {name}, level {level}: free list {free[level]}, expected {listed}"
        if state.left[level] != len(covered):
            yield f"chain {name}, level {level}: {state.left[level]} cells left, expected {len(covered)}"
        if {cell for cell in covered if not cell.healthy} != set(state.bad_free[level]):
            yield f"chain {name}, level {level}: bad free cells {list(state.bad_free[level])}"
        yield from _of_owned(state, level, unbound)
    for level, spare in enumerate(state.splittable()):
        if spare < 0:
            yield f"chain {name}, level {level}: num_splittable is {spare}"
    yield from _of_view(state)


def _of_owned(state: ChainState, level: int, unbound: Counter[tuple[str, int]]) -> Iterator[str]:
    """`unbound`: numbers of preassigned cells by VC and level."""
    where = f"chain {state.chain.name}, level {level}"
    for vc, owned in state.owned_free.items():
        if owned[level] != unbound[vc, level]:
            yield f"{where}: virtual cluster {vc} has {owned[level]} unused cells, which is not the number of unbound ones"
        if any(cell.healthy or cell.virtual is None for cell in state.doomed[vc][level]):
            yield f"{where}: healthy or unbound cells are doomed: {state.doomed[vc][level]}"
    if state.all_owned_free[level] != sum(owned[level] for owned in state.owned_free.values()):
        yield f"{where}: unused cells miscounted"


def _of_view(state: ChainState) -> Iterator[str]:
    for row, cell in enumerate(state.view.cells):
        used = sum(leaf.priority != FREE for leaf in leaves_of(cell))
        if state.view.used(row) != used:
            yield f"{cell!r}: {state.view.used(row)} GPUs in use in the view, expected {used}"


def _preassigned(cells: CellState) -> Iterator[VirtualCell]:
    for tree in cells.clusters.values():
        yield from tree.pinned.values()
        for levels in tree.preassigned.values():
            for level in levels:
                yield from level
