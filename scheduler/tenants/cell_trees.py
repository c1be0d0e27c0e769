"""The trees of cells as viewers show them: hardware with its owners and jobs, and the cells of each virtual cluster (VC).

A cell whose parts are all alike and in use by no job has no children here. GPUs are counted and are no cells here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.shown_gangs import is_unmanaged
from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup
from tiresias.scheduler.virtual_clusters.cell import (
    FREE,
    MIN_GUARANTEED,
    Cell,
    PhysicalCell,
    VirtualCell,
)
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL


class ShownState(str, Enum):
    """The state of a cell; its value is what viewers print."""

    FREE = "free"  # no job uses it; hardware: no VC owns it either
    OWNED = "owned"  # hardware: it is bound to a cell of a VC, or inside such a cell
    USED = "used"  # of a VC: guaranteed jobs use all or some of it
    OPPORTUNISTIC = "opportunistic"  # hardware: jobs without cells use it
    UNMANAGED = "unmanaged"  # hardware: only unmanaged jobs use it
    BAD = "bad"  # a node that is down or drained, or a cell that is bound to one
    DOOMED = (
        "doomed"  # bad hardware that is bound to an unused cell of a VC, because too little healthy hardware is left
    )
    MIXED = "mixed"  # its parts differ


class ShownCell(NamedTuple):
    """A cell of one of the trees.

    Attributes:
        cell_type: Name of its type.
        name: Hardware: the node's name, or the position of the cell in its parent. Of a VC: its address.
        state: Its state.
        gpus: Its GPUs.
        guaranteed, opportunistic, unmanaged: Of these, used by guaranteed, by opportunistic and by unmanaged jobs.
        cluster: The VC that owns it now; "": none.
        bound: Hardware: the address of the virtual cell to which it is bound. Of a VC: the name of its hardware. "": not bound.
        nodes: The names of its first and its last node; () of an unbound cell of a VC.
        pinned: Of a pinned cell: its hardware, as in `DeclaredCells.hardware`.
        jobs: The jobs that use it with their GPUs, where it has no children.
        children: Its parts, where they differ or jobs use them.
    """

    cell_type: str
    name: str
    state: ShownState
    gpus: int
    guaranteed: int = 0
    opportunistic: int = 0
    unmanaged: int = 0
    cluster: str = ""
    bound: str = ""
    nodes: tuple[str, ...] = ()
    pinned: str = ""
    jobs: tuple[tuple[str, int], ...] = ()
    children: tuple[ShownCell, ...] = ()


def hardware_cells(occupancy: CellOccupancy) -> tuple[ShownCell, ...]:
    """Return the topmost physical cells. O(cells above the GPUs + GPUs in use)."""
    state = occupancy.clusters.cells
    tree = _HardwareTree(_doomed(occupancy))
    top = ((chain, levels[state.levels[chain].top]) for chain, levels in state.physical.cells.items())
    return tuple(tree.shown(cell, "", inherited_doom=False) for _, cells in top for cell in cells)


def virtual_cells(occupancy: CellOccupancy, cluster: str) -> tuple[ShownCell, ...]:
    """Return the topmost cells of one VC, as it declares them. O(cells above the GPUs that are in use or bound)."""
    tree = occupancy.clusters.cells.clusters[cluster]
    doomed = _doomed(occupancy)
    topmost = [cell for levels in tree.preassigned.values() for level in reversed(levels) for cell in level]
    return tuple(_virtual(cell, doomed) for cell in (*topmost, *tree.pinned.values()))


def is_free(cell: Cell) -> bool:
    """Return whether no job uses a cell and it is healthy; of a VC: no guaranteed job, and it is not bound to a bad one."""
    if cell.priority != FREE:
        return False
    hardware = cell if isinstance(cell, PhysicalCell) else cell.physical
    return hardware is None or hardware.healthy


def _doomed(occupancy: CellOccupancy) -> frozenset[PhysicalCell]:
    """Return the cells that are doomed to be bad and in use by no guaranteed job."""
    chains = occupancy.clusters.cells.chains.values()
    every = (cell for chain in chains for levels in chain.doomed.values() for level in levels for cell in level)
    return frozenset(cell for cell in every if cell.priority < MIN_GUARANTEED)


class _HardwareTree:
    def __init__(self, doomed: frozenset[PhysicalCell]) -> None:
        self._doomed = doomed

    def shown(self, cell: PhysicalCell, owner: str, *, inherited_doom: bool) -> ShownCell:
        """Return a cell. `owner`: the VC that owns the cell above."""
        owner = cell.virtual.cluster if cell.virtual is not None else owner
        doomed = inherited_doom or cell in self._doomed
        if cell.level > LEAF_LEVEL + 1:
            children = tuple(self.shown(child, owner, inherited_doom=doomed) for child in cell.children)
            return _joined(_place(cell, owner), children, cell.level <= cell.chain.node_level)
        used, jobs = _use(cell)
        state = _state(owner, *used[1:], doomed=doomed, healthy=cell.healthy)
        return _cell(_place(cell, owner), state, used, jobs)


class _Place(NamedTuple):
    """What a cell is, without its use; as in `ShownCell`."""

    cell_type: str
    name: str
    gpus: int
    cluster: str
    bound: str
    nodes: tuple[str, ...]
    pinned: str


Use = tuple[int, int, int]  # GPUs of guaranteed, of opportunistic and of unmanaged jobs
Shares = tuple[tuple[str, int], ...]  # jobs with their GPUs


def _cell(place: _Place, state: ShownState, use: Use, jobs: Shares, children: tuple[ShownCell, ...] = ()) -> ShownCell:
    kind, name, gpus, cluster, bound, nodes, pinned = place
    return ShownCell(kind, name, state, gpus, *use, cluster, bound, nodes, pinned, jobs, children)


def _place(cell: PhysicalCell, owner: str) -> _Place:
    level = cell.chain.at(cell.level)
    bound = cell.virtual.address if cell.virtual is not None else ""
    name, nodes = cell.address.rpartition("/")[2], (cell.nodes[0], cell.nodes[-1])
    return _Place(level.cell_type, name, level.leaves, owner, bound, nodes, cell.pinned)


def _use(cell: PhysicalCell) -> tuple[Use, Shares]:
    """Return the GPUs in use of a cell whose parts are GPUs, and the jobs that use them."""
    if cell.priority == FREE:
        return (0, 0, 0), ()
    users = _counted([leaf.user for leaf in cell.children or (cell,)])
    use, jobs = [0, 0, 0], list[tuple[str, int]]()
    for user, gpus in users.items():
        name = user.name
        if is_unmanaged(name):
            use[2] += gpus
        else:
            use[user.virtual is None] += gpus
            jobs.append((name, gpus))
    return (use[0], use[1], use[2]), tuple(jobs)


def _counted(users: Iterable[AffinityGroup | None]) -> dict[AffinityGroup, int]:
    """Return the GPUs of each gang, from the gang of each GPU."""
    found: dict[AffinityGroup, int] = {}
    for user in users:
        if user is not None:
            found[user] = found.get(user, 0) + 1
    return found


def _state(owner: str, opportunistic: int, unmanaged: int, *, doomed: bool, healthy: bool) -> ShownState:
    if not healthy:
        return ShownState.DOOMED if doomed else ShownState.BAD
    if owner:
        return ShownState.OWNED
    if opportunistic:
        return ShownState.OPPORTUNISTIC
    return ShownState.UNMANAGED if unmanaged else ShownState.FREE


def _virtual(cell: VirtualCell, doomed: frozenset[PhysicalCell]) -> ShownCell:
    place = _virtual_place(cell)
    if is_free(cell):
        return _cell(place, ShownState.FREE, (0, 0, 0), ())
    if cell.level > LEAF_LEVEL + 1:
        children = tuple(_virtual(child, doomed) for child in cell.children)
        return _joined(place, children, cell.level <= cell.chain.node_level)
    if cell.priority == FREE:
        is_doomed = cell.preassigned.physical in doomed
        return _cell(place, ShownState.DOOMED if is_doomed else ShownState.BAD, (0, 0, 0), ())
    used = [leaf.physical for leaf in cell.children or (cell,) if leaf.priority > FREE]
    users = _counted([hardware.user for hardware in used if hardware is not None])
    jobs = tuple([(user.name, gpus) for user, gpus in users.items()])
    return _cell(place, ShownState.USED, (sum(users.values()), 0, 0), jobs)


def _virtual_place(cell: VirtualCell) -> _Place:
    hardware, level = cell.physical, cell.chain.at(cell.level)
    bound = hardware.address if hardware is not None else ""
    nodes = (hardware.nodes[0], hardware.nodes[-1]) if hardware is not None else ()
    pinned = hardware.pinned if hardware is not None else ""
    return _Place(level.cell_type, cell.address, level.leaves, cell.cluster, bound, nodes, pinned)


def _joined(place: _Place, children: tuple[ShownCell, ...], is_in_node: bool) -> ShownCell:
    """Return a cell with the sums of its parts; parts that are alike are left out where jobs use none of them and none is pinned.

    Args:
        place: What the cell is.
        children: Its parts.
        is_in_node: Whether it is a node or a part of one: then the parts are left out, too, where the same jobs use all of them.
    """
    is_one = len({child.state for child in children}) == 1
    alike = is_one and len({child.cluster for child in children}) == 1 and _have_same_jobs(children, is_in_node)
    alike = alike and not any(child.children or child.pinned for child in children)
    use = (
        sum([child.guaranteed for child in children]),
        sum([child.opportunistic for child in children]),
        sum([child.unmanaged for child in children]),
    )
    state = children[0].state if is_one else ShownState.MIXED
    return _cell(place, state, use, _summed(children) if alike else (), () if alike else children)


def _have_same_jobs(cells: Sequence[ShownCell], is_in_node: bool) -> bool:
    """Return whether no job uses cells, or the same ones use each of them and they are in one node."""
    if not is_in_node:
        return not any(cell.jobs for cell in cells)
    return len({tuple(name for name, _ in cell.jobs) for cell in cells}) == 1


def _summed(children: Sequence[ShownCell]) -> Shares:
    found = Counter[str]()
    for child in children:
        found.update(dict(child.jobs))
    return tuple(found.items())
