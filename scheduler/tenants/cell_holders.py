"""The jobs that hold cells of their virtual clusters (VCs), as arrays over the jobs of one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from tiresias.scheduler.idle_pools import PooledGpus
from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.virtual_nodes import HeldNodes, VirtualNodes


class CellHolders:
    """The guaranteed jobs of all VCs. O(jobs with cells), in Python, and O(jobs) in numpy.

    Attributes:
        row_of: The row of each job.
        rows: The rows of the guaranteed jobs of each VC, in the order of `HeldNodes.names`.
        owns: Those that hold cells of their VC, shape (jobs,).
        without_cells: Those with GPUs and no cells of their VC, shape (jobs,).
    """

    def __init__(
        self, ids: Sequence[str], occupancy: CellOccupancy, nodes: Mapping[str, VirtualNodes], owners: Sequence[str]
    ) -> None:
        """`ids`: of all jobs. `owners`: the VCs in the order of the tenants."""
        self.row_of = dict(zip(ids, range(len(ids)), strict=True))
        self._nodes = [nodes[name] for name in owners]
        self._held: list[HeldNodes] = [each.gpus_held() for each in self._nodes]
        self.rows = {name: self._rows_of(held) for name, held in zip(owners, self._held, strict=True)}
        self.owns: Bools = np.zeros(len(ids), np.bool_)
        self.owns[self._rows] = True
        self.without_cells: Bools = np.zeros(len(ids), np.bool_)
        self.without_cells[occupancy.rows_with_gpus] = True
        self.without_cells[self._rows[self._count > 0]] = False

    @cached_property
    def _rows(self) -> Ints:
        return np.concatenate(list(self.rows.values()))

    def _rows_of(self, held: HeldNodes) -> Ints:
        return np.array(list(map(self.row_of.__getitem__, held.names)), np.int64)

    @cached_property
    def _count(self) -> Ints:
        return np.concatenate([held.count for held in self._held])

    def gpus(self) -> PooledGpus:
        """Return what the VCs own, and what the jobs hold of it. O(virtual nodes) where hardware is bad."""
        total = np.array([int(each.gpus.sum()) for each in self._nodes], np.int64)
        usable = [each.usable() for each in self._nodes]
        here = np.concatenate([mask[held.at] for mask, held in zip(usable, self._held, strict=True)])
        used = np.array([held.gpus[mask[held.at]].sum() for mask, held in zip(usable, self._held, strict=True)])
        healthy = np.array([each.gpus[mask].sum() for mask, each in zip(usable, self._nodes, strict=True)])
        job, gpus = np.repeat(self._rows, self._count), np.concatenate([held.gpus for held in self._held])
        return PooledGpus(total, healthy.astype(np.float64) - used, job[here], gpus[here].astype(np.float64))
