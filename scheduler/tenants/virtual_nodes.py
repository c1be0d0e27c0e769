"""The snapshot of one virtual cluster (VC): its jobs on its virtual nodes, as if it were a cluster of its own.

A virtual node that is not bound to hardware is free. The virtual nodes of one cell of the VC are close to each other; those of
different cells are far apart, wherever they are bound. Nodes that are bound come first, in the order of the hardware, so that the
decision depends on the snapshot alone and not on which of several equal virtual cells a job holds; then those of small cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

import numpy as np

from tiresias.scheduler.model import Allocations, Bools, Ints, Nodes, Request
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.topology_tree import Topology
from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup
from tiresias.scheduler.virtual_clusters.cell import VirtualCell

_UNBOUND = np.iinfo(np.int64).max


class VirtualNodes:
    """The virtual nodes of one VC.

    Attributes:
        cells: Their cells.
        names: Their addresses.
        order: The canonical order at the last call of `sort`: positions in `cells`, shape (nodes,).
    """

    def __init__(self, occupancy: CellOccupancy, cluster: str, levels: int) -> None:
        """`levels`: those of the physical topology above the node."""
        self._occupancy = occupancy
        tree = occupancy.clusters.cells.clusters[cluster]
        views = [view.cells for view in tree.views.values()]
        self.cells = [cell for cells in views for cell in cells if isinstance(cell, VirtualCell)]
        self.names = tuple(cell.address for cell in self.cells)
        self._at = {cell: at for at, cell in enumerate(self.cells)}
        self._levels = levels
        self.order = np.arange(len(self.cells))

    @cached_property
    def gpus(self) -> Ints:
        """GPUs of each virtual node."""
        return np.array([cell.chain.at(cell.level).leaves for cell in self.cells], np.int64)

    @cached_property
    def _types(self) -> tuple[str, ...]:
        return tuple("" if cell.chain.leaf_type == "gpu" else cell.chain.leaf_type for cell in self.cells)

    @cached_property
    def _above(self) -> list[list[VirtualCell]]:
        """For each level, the nearest first, the cell of each node; the topmost cell that the VC owns where there is none."""
        found, level = [], list(self.cells)
        for _ in range(self._levels):
            level = [cell.parent or cell for cell in level]
            found.append(level)
        return found

    @cached_property
    def _groups(self) -> list[Ints]:
        return [_numbered(level) for level in self._above]

    def sort(self) -> None:
        """Order the nodes by the hardware to which they and the cells above them are bound. O(nodes x levels)."""
        chains = _numbered([cell.chain.name for cell in self.cells])
        keys = [_bound(level) for level in (self.cells, *self._above)]
        size = np.array([cell.preassigned.level for cell in self.cells], np.int64)
        self.order = np.lexsort((np.arange(len(self.cells)), size, *keys, chains))

    def nodes(self, groups: Iterable[AffinityGroup]) -> Nodes:
        """Return the nodes in their order, without what these gangs hold."""
        free = self.gpus - self.used(groups)
        rows, unlimited = self.order, np.full(len(self.cells), np.inf)
        topology = Topology.of_groups(self.gpus[rows], [level[rows] for level in self._groups])
        usable = self._usable()[rows]
        names, types = (tuple(column[row] for row in rows.tolist()) for column in (self.names, self._types))
        return Nodes(
            names, self.gpus[rows], Resources.of(free[rows], unlimited, unlimited), usable, topology, types,
            (frozenset(),) * len(rows),
        )  # fmt: skip

    def used(self, groups: Iterable[AffinityGroup]) -> Ints:
        """Return the GPUs that gangs hold on each node, in the order of `cells`."""
        found = np.zeros(len(self.cells), np.int64)
        for group in groups:
            for cell, gpus in held_by(group).items():
                found[self._at[cell]] += gpus
        return found

    def allocations(self, rows: Sequence[tuple[int, AffinityGroup]]) -> Allocations:
        """Return what gangs hold. `rows`: the row of the job of each."""
        place = np.empty(len(self.cells), np.int64)
        place[self.order] = np.arange(len(self.cells))
        held = [(row, int(place[self._at[cell]]), gpus) for row, group in rows for cell, gpus in held_by(group).items()]
        job, node, gpus = np.array(held, np.int64).reshape(-1, 3).T
        nothing = np.zeros(len(held))
        return Allocations(job, node, Resources.of(gpus, nothing, nothing))

    def cell(self, name: str) -> VirtualCell:
        """Return the cell of a node by its name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, VirtualCell]:
        return dict(zip(self.names, self.cells, strict=True))

    def _usable(self) -> Bools:
        usable = np.ones(len(self.cells), np.bool_)
        cells = self._occupancy.clusters.cells
        for node in cells.bad.nodes:
            for leaf in cells.physical.leaves[node]:
                at = self._at.get(leaf.host.virtual) if leaf.host.virtual is not None else None
                if at is not None:
                    usable[at] = False
        return usable


def held_by(group: AffinityGroup) -> Counter[VirtualCell]:
    """Return the GPUs that a gang holds on each of its virtual nodes. The GPUs of a pod are on one node."""
    found: Counter[VirtualCell] = Counter()
    for pod in group.virtual or ():
        if pod and pod[0] is not None:
            found[pod[0].host] += len(pod)
    return found


def _bound(cells: Sequence[VirtualCell]) -> Ints:
    return np.array([_UNBOUND if cell.physical is None else cell.physical.number for cell in cells], np.int64)


def _numbered(values: Sequence[object]) -> Ints:
    number: dict[object, int] = {}
    return np.array([number.setdefault(value, len(number)) for value in values], np.int64)


@lru_cache(maxsize=4096)
def request_in_cells(request: Request) -> Request:
    """Return what a request demands of virtual nodes; what it demands of the hardware is checked when they are bound."""
    return Request(request.min_nodes, request.max_nodes, request.gpus_per_node, gpu_type=request.gpu_type)
