"""Physical and virtual cells: the nodes of the two kinds of trees.

A physical cell is hardware. A virtual cell belongs to a VC. While a virtual cell is in use, it is bound to one physical cell of its
level; between uses it may be bound to any other one. The parent of a bound cell is bound to the parent of its counterpart, up to
the preassigned cell, the topmost virtual cell that a VC owns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING

from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL, CellChain

if TYPE_CHECKING:
    from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup
    from tiresias.scheduler.virtual_clusters.node_view import NodeView

OPPORTUNISTIC = -1  # the priority of jobs without a guarantee
FREE = OPPORTUNISTIC - 1  # the priority of a cell that no job uses
MIN_GUARANTEED = 0
MAX_GUARANTEED = 1000


class LeafState(IntEnum):
    """Which groups hold a physical leaf cell."""

    FREE = 0
    USED = 1
    RESERVING = 2  # a group uses it, and another one has reserved it and preempts the first one
    RESERVED = 3  # a preempting group has reserved it, and it is free


class PhysicalCell:
    """A cell of the hardware.

    Attributes:
        chain, level: Its place in the hierarchy; the leaf level is 1.
        number: Position among the cells of its level in the chain.
        address: Path of the addresses from the topmost cell.
        nodes: Names of its nodes.
        leaf_index: Index of the GPU on its node; -1 above the leaf level.
        priority: The highest priority of its leaves.
        opportunistic: Leaves that opportunistic jobs use.
        healthy: Whether all its leaves are healthy.
        split: Whether its children are allocated separately.
        pinned: Identifier of the pinned cell; "": not pinned.
        virtual: The bound virtual cell.
        state, user, reserver: Of a leaf: its state, the group that uses it, the group that has reserved it.
        host: Of a leaf: the cell above it that is a row of a view.
        view, row: Of a node: the view for opportunistic jobs, and the cell's row there.
    """

    __slots__ = (
        "address",
        "chain",
        "children",
        "healthy",
        "host",
        "leaf_index",
        "level",
        "nodes",
        "number",
        "opportunistic",
        "parent",
        "pinned",
        "priority",
        "reserver",
        "row",
        "split",
        "state",
        "user",
        "view",
        "virtual",
    )

    def __init__(self, chain: CellChain, level: int, number: int, address: str, parent: PhysicalCell | None) -> None:
        self.chain, self.level, self.number, self.address, self.parent = chain, level, number, address, parent
        self.children: list[PhysicalCell] = []
        self.nodes: tuple[str, ...] = ()
        self.leaf_index = -1
        self.priority = FREE
        self.opportunistic = 0
        self.healthy = True
        self.split = False
        self.pinned = ""
        self.virtual: VirtualCell | None = None
        self.state = LeafState.FREE
        self.user: AffinityGroup | None = None
        self.reserver: AffinityGroup | None = None
        self.host: PhysicalCell = self
        self.view: NodeView | None = None
        self.row = -1

    def __repr__(self) -> str:
        """Return type and address, for error messages."""
        return f"{self.chain.at(self.level).cell_type} {self.address}"

    @property
    def usable(self) -> bool:
        """Whether a virtual cell may be bound to it: it is not bound, and not a bad node or a part of one."""
        return self.virtual is None and (self.healthy or len(self.nodes) > 1)

    @property
    def free_level(self) -> int:
        """The level of the cell in the free list of its chain that it is or belongs to; 0: there is none."""
        cell: PhysicalCell | None = self
        while cell is not None and cell.virtual is None and not cell.split:
            if cell.parent is None or cell.parent.split:
                return cell.level
            cell = cell.parent
        return 0

    @property
    def in_free_list(self) -> bool:
        """Whether it, or a cell that contains it, is in the free list of its chain."""
        return self.free_level > 0


class VirtualCell:
    """A cell of a VC.

    Attributes:
        cluster: Name of the VC.
        chain, level, address, priority: As of a physical cell.
        preassigned: The topmost cell above it, itself included.
        physical: The physical cell to which it is bound; None: it is not in use, and no hardware is bad.
        host: Of a leaf: the cell above it that is a row of a view.
        view, row: Of a node, or of a topmost cell below the node level: the view of the VC, and the cell's row there.
    """

    __slots__ = (
        "address",
        "chain",
        "children",
        "cluster",
        "host",
        "level",
        "parent",
        "physical",
        "preassigned",
        "priority",
        "row",
        "view",
    )

    def __init__(self, cluster: str, chain: CellChain, level: int, address: str, parent: VirtualCell | None) -> None:
        self.cluster, self.chain, self.level, self.address, self.parent = cluster, chain, level, address, parent
        self.children: list[VirtualCell] = []
        self.preassigned: VirtualCell = parent.preassigned if parent else self
        self.physical: PhysicalCell | None = None
        self.priority = FREE
        self.host: VirtualCell = self
        self.view: NodeView | None = None
        self.row = -1

    def __repr__(self) -> str:
        """Return type and address, for error messages."""
        return f"{self.chain.at(self.level).cell_type} {self.address}"


Cell = PhysicalCell | VirtualCell
LeafPairs = Sequence[tuple[PhysicalCell, VirtualCell]]  # each virtual leaf with its physical one
_priority_of: Callable[[Cell], int] = attrgetter("priority")


def set_priority(cell: Cell, priority: int) -> None:
    """Set the priority of a leaf; each cell above it has the highest priority of its children."""
    at: Cell | None = cell
    while at is not None and at.priority != priority:
        before, at.priority = at.priority, priority
        at = at.parent
        if at is None or priority == at.priority or (priority < at.priority and before != at.priority):
            return
        if priority < at.priority:
            priority = max(map(_priority_of, at.children))


def leaves_of(cell: Cell) -> list[Cell]:
    """Return the leaves below a cell, in the order of the tree."""
    if cell.level == LEAF_LEVEL:
        return [cell]
    return [leaf for child in cell.children for leaf in leaves_of(child)]


def bind(physical: PhysicalCell, virtual: VirtualCell) -> None:
    """Bind one virtual cell to one physical cell."""
    physical.virtual, virtual.physical = virtual, physical
    if virtual.view is not None:
        virtual.view.set_hardware(virtual.row, physical)


def unbind(physical: PhysicalCell) -> None:
    """Remove the binding of one physical cell."""
    virtual, physical.virtual = physical.virtual, None
    if virtual is not None:
        virtual.physical = None
        if virtual.view is not None:
            virtual.view.set_hardware(virtual.row, None)


def hold(leaves: LeafPairs, priority: int) -> None:
    """Bind leaves inside of bound cells that are in use. Nothing is recorded above them: `let_go` has to follow."""
    for physical, virtual in leaves:
        bind(physical, virtual)
        virtual.priority = priority


def let_go(leaves: LeafPairs) -> None:
    """Take `hold` back."""
    for physical, virtual in leaves:
        unbind(physical)
        virtual.priority = FREE


def bind_upward(physical: PhysicalCell | None, virtual: VirtualCell | None) -> None:
    """Bind a cell and each cell above it that is not bound yet, up to the preassigned cell."""
    while physical is not None and virtual is not None and virtual.physical is None:
        bind(physical, virtual)
        physical, virtual = physical.parent, virtual.parent


def unbind_upward(physical: PhysicalCell) -> None:
    """Remove the binding of a cell, and of each cell above it that has no other bound child. A pinned cell stays bound."""
    virtual = physical.virtual
    while virtual is not None and virtual.physical is not None and not virtual.physical.pinned:
        unbind(virtual.physical)
        virtual = virtual.parent
        if virtual is None:
            return
        for child in virtual.children:
            if child.physical is not None:
                return
