"""The jobs that hold cells of their virtual clusters (VCs), as arrays over the jobs of one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from tiresias.scheduler.idle_pools import PooledGpus
from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.virtual_node_bindings import HeldNodes
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes


class CellHolders:
    """The guaranteed jobs of all VCs. O(jobs with cells), in Python, and O(jobs) in numpy.

    Attributes:
        row_of: The row of each job.
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
    ) -> None:
        """`row_of`: the row of each job. `owners`: the VCs in the order of the tenants."""
        self.row_of = row_of
        self.bindings = {name: nodes[name].bindings for name in owners}
        self._total = [nodes[name].total for name in owners]
        held = [each.held for each in self.bindings.values()]
        self.rows = self._rows_of(held)
        self.count: Ints = np.concatenate([each.count for each in held])
        self.owns: Bools = np.zeros(len(row_of), np.bool_)
        self.owns[self.rows] = True
        self.without_cells: Bools = np.zeros(len(row_of), np.bool_)
        self.without_cells[occupancy.rows_with_gpus] = True
        self.without_cells[self.rows[self.count > 0]] = False

    def _rows_of(self, held: Sequence[HeldNodes]) -> Ints:
        names = chain.from_iterable([each.names for each in held])
        return np.array(list(map(self.row_of.__getitem__, names)), np.int64)

    @cached_property
    def job(self) -> Ints:
        """The row of the job of each virtual node on which a job holds GPUs, VC by VC."""
        return np.repeat(self.rows, self.count)

    def gpus(self) -> PooledGpus:
        """Return what the VCs own, and what the jobs hold of it."""
        each = list(self.bindings.values())
        free = np.array([one.free for one in each], np.float64)
        here = np.concatenate([one.on_usable for one in each])
        held = np.concatenate([one.held.gpus for one in each])[here].astype(np.float64)
        return PooledGpus(np.array(self._total, np.int64), free, self.job[here], held)
