"""To which hardware the virtual nodes of a virtual cluster (VC) are bound at one moment, and which gangs hold them.

Nothing here changes, so that a snapshot of the VC can be made after later decisions have bound the virtual nodes otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.topology_tree import Topology


@dataclass(frozen=True, slots=True, eq=False)
class HeldNodes:
    """What guaranteed gangs hold of the virtual nodes of their VC.

    Attributes:
        names: The gangs.
        count: On how many virtual nodes each of them has GPUs.
        at: These nodes, gang by gang: positions in `VirtualNodes.cells`.
        gpus: The GPUs there.
    """

    names: tuple[str, ...]
    count: Ints
    at: Ints
    gpus: Ints


@dataclass(frozen=True, slots=True, eq=False)
class OrderedNodes:
    """The columns of the virtual nodes that depend on their order alone.

    Attributes:
        order: The canonical order: positions in `VirtualNodes.cells`.
        place: The place of each of these positions there.
        gpus, names, types, topology: As of `Nodes`.
    """

    order: Ints
    place: Ints
    gpus: Ints
    names: tuple[str, ...]
    types: tuple[str, ...]
    topology: Topology


@dataclass(frozen=True, slots=True, eq=False)
class VirtualNodeBindings:
    """The virtual nodes of one VC at one moment. Columns are in the order of `VirtualNodes.cells`.

    Attributes:
        ordered: Their order, by the hardware.
        row: The row of the hardware of each node, shape (nodes,); -1: it is not bound.
        usable: Whether this is healthy, shape (nodes,).
        possible: For nodes that are not bound, but a cell above them is: the hardware to which they can be bound, by position.
        held: What gangs hold.
        used: GPUs of each node that gangs hold, shape (nodes,).
        on_usable: Whether what gangs hold is on healthy nodes, shape (nodes of the gangs,).
        free: GPUs of all healthy nodes that no gang holds.
    """

    ordered: OrderedNodes
    row: Ints
    usable: Bools
    possible: Mapping[int, frozenset[str]]
    held: HeldNodes
    used: Ints
    on_usable: Bools
    free: int

    def equals(self, other: VirtualNodeBindings) -> bool:
        """Return whether nothing is bound, held or healthy otherwise. The other columns follow from those that are compared."""
        alike = self.ordered is other.ordered and self.held is other.held and self.possible == other.possible
        return alike and np.array_equal(self.row, other.row) and np.array_equal(self.usable, other.usable)
