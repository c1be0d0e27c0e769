"""What tenants own, as a site or an experiment declares it: cells by level of the topology and GPU type."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiresias.scheduler.host_lists import compressed


@dataclass(frozen=True, slots=True)
class DeclaredCells:
    """Cells that a virtual cluster owns.

    Attributes:
        level: A level of the topology, such as leaf or node; or the type of a cell, such as leaf#2 or leaf#2.node, where the cells
            of a level differ (`cells_of_topology.py`).
        count: Number of cells; 1 of a pinned cell.
        gpu_type: GPU type; "": any, where the cells of that level have one type only.
        nodes: Of a pinned cell: all of its nodes; (): the cells may be bound to any hardware.
        gpus: Of a pinned cell that is a part of a node: the indexes of its GPUs.
    """

    level: str
    count: int = 1
    gpu_type: str = ""
    nodes: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()

    @property
    def hardware(self) -> str:
        """The hardware of a pinned cell: gpu07, gpu[05-08], gpu07 GPUs 4-7; "": it is not pinned."""
        indexes = compressed(map(str, self.gpus)).strip("[]")
        return compressed(self.nodes) + (f" GPUs {indexes}" if indexes else "")

    def __str__(self) -> str:
        if self.nodes:
            return f"{self.level} {self.hardware}"
        return f"{self.count} {self.level}" + (f" of {self.gpu_type}" if self.gpu_type else "")


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

    def unpinned(self) -> DeclaredTenant:
        """Return the tenant with cells of the same levels on any hardware."""
        cells = tuple(DeclaredCells(cell.level) if cell.nodes else cell for cell in self.cells)
        return replace(self, cells=cells)
