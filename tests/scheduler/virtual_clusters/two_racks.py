"""A small cluster: two racks of two pairs of nodes with four GPUs, and three VCs that own pairs, nodes, sockets and GPUs."""

from __future__ import annotations

from tiresias.scheduler.virtual_clusters.specification import (
    CellSpecification,
    CellType,
    DeclaredCell,
    DeclaredVirtualCluster,
    OwnedCells,
)

TYPES = {
    "SOCKET": CellType("GPU", 2),
    "NODE": CellType("SOCKET", 2, is_node=True),
    "PAIR": CellType("NODE", 2),
    "RACK": CellType("PAIR", 2),
}


def _vc(*cells: tuple[str, int]) -> DeclaredVirtualCluster:
    return DeclaredVirtualCluster(tuple(OwnedCells(*each) for each in cells))


def _rack(at: int) -> DeclaredCell:
    pairs = [tuple(DeclaredCell(address=f"r{at}n{2 * pair + node}") for node in range(2)) for pair in range(2)]
    return DeclaredCell("RACK", children=tuple(DeclaredCell(children=pair) for pair in pairs))


SPEC = CellSpecification(
    TYPES,
    (_rack(0), _rack(1)),
    {
        "prod": _vc(("RACK.PAIR", 2)),
        "research": _vc(("RACK.PAIR.NODE", 3)),
        "intern": _vc(("RACK.PAIR.NODE.SOCKET", 1), ("RACK.PAIR.NODE.SOCKET.GPU", 2)),
    },
)
