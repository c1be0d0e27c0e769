"""The declared cells of a cluster and of its virtual clusters (VCs), as they are configured.

A cell is a set of GPUs that the topology connects: one GPU, the GPUs of a socket, a node, the nodes of a rack. A cell type names
the type of its children and their number, so that the types form trees with one GPU type as leaf. The type of a topmost cell names
a chain. A VC owns a number of cells of some types of a chain, and pinned cells, which are particular physical cells.

The values here are unchecked; `cell_chains.chains_of` and `CellState` check them and raise `UsageError` in one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CellType:
    """A level of a chain.

    Attributes:
        child: Name of the children's type. A type that is not declared itself is a leaf: one GPU.
        count: Number of children.
        is_node: Whether a cell of this type is a node.
    """

    child: str
    count: int
    is_node: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredCell:
    """A physical cell.

    Attributes:
        cell_type: Type of a topmost cell; "" for the others, whose type follows from their parent's.
        address: The node's name, the GPU's index, or any name; "": the position among the cells of its level in the node or in the
            topmost cell.
        pinned: Identifier that a VC uses to own this very cell; "": not pinned.
        children: All children, or none: then they have default addresses.
    """

    cell_type: str = ""
    address: str = ""
    pinned: str = ""
    children: tuple[DeclaredCell, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnedCells:
    """Cells that a VC owns.

    Attributes:
        path: The chain, then each type down to the owned one, with dots: RACK.NODE.SOCKET. The types between may be left out.
        count: Number of cells.
    """

    path: str
    count: int

    @property
    def chain(self) -> str:
        """The name of the chain."""
        return self.path.partition(".")[0]

    @property
    def cell_type(self) -> str:
        """The name of the owned type."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class DeclaredVirtualCluster:
    """What one VC owns.

    Attributes:
        cells: Cells by type.
        pinned: Identifiers of pinned cells.
    """

    cells: tuple[OwnedCells, ...] = ()
    pinned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CellSpecification:
    """The cells of a cluster and their owners.

    Attributes:
        cell_types: Declared types by name.
        physical_cells: The topmost cells.
        virtual_clusters: VCs by name. Where an order of VCs matters, it is this one.
    """

    cell_types: Mapping[str, CellType] = field(default_factory=dict)
    physical_cells: tuple[DeclaredCell, ...] = ()
    virtual_clusters: Mapping[str, DeclaredVirtualCluster] = field(default_factory=dict)
