"""The jobs that hold cells of their virtual clusters (VCs), as arrays over the jobs of one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from tiresias.scheduler.idle_pools import PooledGpus
from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.free_cells import CellLevel, FreeCells
from tiresias.scheduler.tenants.virtual_node_bindings import HeldNodes
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes


class KeptHolderRows:
    """The rows of the guaranteed jobs of each VC. They are looked up again where its gangs or the rows of the jobs have changed."""

    def __init__(self) -> None:
        self._row_of: Mapping[str, int] = {}
        self._of: dict[str, tuple[HeldNodes, Ints]] = {}

    def of(self, owners: Sequence[str], held: Sequence[HeldNodes], row_of: Mapping[str, int]) -> Ints:
        """Return the rows, VC by VC. O(jobs of the changed VCs) in Python. `row_of`: one object while the jobs are the same."""
        if row_of is not self._row_of:
            self._row_of, self._of = row_of, {}
        for name, each in zip(owners, held, strict=True):
            if name not in self._of or self._of[name][0] is not each:
                self._of[name] = each, np.fromiter(map(row_of.__getitem__, each.names), np.int64, len(each.names))
        return np.concatenate([self._of[name][1] for name in owners])


class CellHolders:
    """The guaranteed jobs of all VCs. O(jobs) in numpy, and what `KeptHolderRows` looks up.

    Attributes:
        row_of: The row of each job.
        free_cells: The free cells.
        bindings: The virtual nodes of each VC as the cells are now, in the order of the tenants.
        rows: The rows of the guaranteed jobs, VC by VC, in the order of `HeldNodes.names`.
        owns: Those that hold cells of their VC, shape (jobs,).
        without_cells: Those with GPUs and no cells of their VC, shape (jobs,).
    """

    def __init__(
        self,
        row_of: Mapping[str, int],
        occupancy: CellOccupancy,
        nodes: Mapping[str, VirtualNodes],
        owners: Sequence[str],
        free_cells: FreeCells,
        kept: KeptHolderRows | None = None,
    ) -> None:
        """Start with the cells as they are now.

        Args:
            row_of: The row of each job.
            occupancy: The gangs in their cells.
            nodes: The virtual nodes of each VC.
            owners: The VCs in the order of the tenants.
            free_cells: The free cells.
            kept: The rows that are known.
        """
        self.row_of, self.free_cells, self._kept = row_of, free_cells, kept or KeptHolderRows()
        self._nodes = [nodes[name] for name in owners]
        self.bindings = {name: nodes[name].bindings for name in owners}
        self._total = [nodes[name].total for name in owners]
        held = [each.held for each in self.bindings.values()]
        self.rows = self._kept.of(owners, held, row_of)
        self.count: Ints = np.concatenate([each.count for each in held])
        self.owns: Bools = np.zeros(len(row_of), np.bool_)
        self.owns[self.rows] = True
        self.without_cells: Bools = np.zeros(len(row_of), np.bool_)
        self.without_cells[occupancy.rows_with_gpus] = True
        self.without_cells[self.rows[self.count > 0]] = False

    @cached_property
    def job(self) -> Ints:
        """The row of the job of each virtual node on which a job holds GPUs, VC by VC."""
        return np.repeat(self.rows, self.count)

    def jobs_of(self, name: str) -> Ints:
        """Return those of one VC."""
        return self.job[self._ranges[name]]

    @cached_property
    def _ranges(self) -> Mapping[str, slice]:
        """Where the virtual nodes with jobs of each VC are in `job`."""
        ends = np.cumsum([len(each.held.at) for each in self.bindings.values()]).tolist()
        return {name: slice(first, end) for name, first, end in zip(self.bindings, (0, *ends), ends, strict=False)}

    def unbound(self) -> list[Mapping[CellLevel, int]]:
        """Return for each VC the number of its preassigned cells of each level that are not bound."""
        return [nodes.unbound(each) for nodes, each in zip(self._nodes, self.bindings.values(), strict=True)]

    def gpus(self) -> PooledGpus:
        """Return what the VCs own, and what the jobs hold of it."""
        each = list(self.bindings.values())
        free = np.array([one.free for one in each], np.float64)
        here = np.concatenate([one.on_usable for one in each])
        held = np.concatenate([one.held.gpus for one in each])[here].astype(np.float64)
        return PooledGpus(np.array(self._total, np.int64), free, self.job[here], held)
