"""What tenants own, as a site or an experiment declares it: cells by level of the topology and GPU type."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeclaredCells:
    """Cells that a virtual cluster owns.

    Attributes:
        level: A level of the topology, such as leaf or node; or the type of a cell, such as leaf#2 or leaf#2.node, where the cells
            of a level differ (`cells_of_topology.py`).
        count: Number of cells.
        gpu_type: GPU type; "": any, where the cells of that level have one type only.
    """

    level: str
    count: int
    gpu_type: str = ""


@dataclass(frozen=True, slots=True)
class DeclaredTenant:
    """A virtual cluster.

    Attributes:
        name: Its name, as in `Jobs.virtual_cluster`.
        cells: What it owns.
        opportunistic: Whether its jobs may use idle GPUs beyond its cells.
    """

    name: str
    cells: tuple[DeclaredCells, ...]
    opportunistic: bool = True
