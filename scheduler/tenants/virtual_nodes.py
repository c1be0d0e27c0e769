"""The snapshot of one virtual cluster (VC): its jobs on its virtual nodes, as if it were a cluster of its own.

A virtual node that is not bound to hardware is free. The virtual nodes of one cell of the VC are close to each other; those of
different cells are far apart, wherever they are bound. Nodes that are bound come first, in the order of the hardware, so that the
decision depends on the snapshot alone and not on which of several equal virtual cells a job holds; then those of small cells.

A part of a node that a VC owns is a virtual node with the GPUs of the part. Several of them may be bound to parts of one node, so
that a request of two nodes or more uses whole nodes only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import cached_property

import numpy as np

from tiresias.scheduler.model import Allocations, Bools, Floats, Ints, Nodes, Request, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.topology_tree import Topology
from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell

_UNBOUND = np.iinfo(np.int64).max


class VirtualNodes:
    """The virtual nodes of one VC.

    Attributes:
        cells: Their cells.
        names: Their addresses.
        order: The canonical order at the last call of `sort`: positions in `cells`, shape (nodes,).
    """

    def __init__(self, occupancy: CellOccupancy, cluster: str, hardware: Nodes) -> None:
        """`hardware`: the nodes of which the cells consist."""
        self._occupancy = occupancy
        self._part_types = part_types(hardware)
        tree = occupancy.clusters.cells.clusters[cluster]
        views = [view.cells for view in tree.views.values()]
        self.cells = [cell for cells in views for cell in cells if isinstance(cell, VirtualCell)]
        self.names = tuple(cell.address for cell in self.cells)
        self._at = {cell: at for at, cell in enumerate(self.cells)}
        self._levels = len(hardware.topology.groups)
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

    def nodes(self, groups: Iterable[AffinityGroup], hardware: Nodes, available: Floats) -> Nodes:
        """Return the nodes in their order, without what these gangs hold.

        A node that is bound has the features, CPUs and memory of its hardware. Any other one has no limits, and all features of
        the nodes to which it can be bound below the cell above it that is bound.

        Args:
            groups: The gangs.
            hardware: The nodes.
            available: GPUs, CPUs and MiB of each that guaranteed jobs do not hold, shape (nodes, 3).
        """
        free = self.gpus - self.used(groups)
        rows, bound = self.order, self._rows_of_hardware(hardware)
        cpus, memory = np.where(bound[:, None] >= 0, available[bound, 1:], np.inf).T
        topology = Topology.of_groups(self.gpus[rows], [level[rows] for level in self._groups])
        usable = self._usable()[rows]
        names, types = (tuple(column[row] for row in rows.tolist()) for column in (self.names, self._types))
        return Nodes(
            names, self.gpus[rows], Resources.of(free[rows], cpus[rows], memory[rows]), usable, topology, types,
            self._features(bound, hardware),
        )  # fmt: skip

    def _rows_of_hardware(self, hardware: Nodes) -> Ints:
        """Return the row of the hardware to which each node is bound; -1: it is not."""
        row = {name: at for at, name in enumerate(hardware.name)}
        places = [-1 if cell.physical is None else row[cell.physical.nodes[0]] for cell in self.cells]
        return np.array(places, np.int64)

    def _features(self, bound: Ints, hardware: Nodes) -> tuple[frozenset[str], ...]:
        """Return the features of each node in their order."""
        row = {name: at for at, name in enumerate(hardware.name)}
        below: dict[object, frozenset[str]] = {None: frozenset[str]().union(*hardware.features)}
        found = []
        for at in self.order.tolist():
            above = None if bound[at] >= 0 else self._bound_above(self.cells[at])
            if above not in below:
                places = (row[name] for name in self._unbound_nodes(above))
                below[above] = frozenset[str]().union(*(hardware.features[place] for place in places))
            found.append(hardware.features[bound[at]] if bound[at] >= 0 else below[above])
        return tuple(found)

    def _bound_above(self, cell: VirtualCell) -> PhysicalCell | None:
        """Return the hardware of the nearest cell above that is bound."""
        above = cell.parent
        while above is not None and above.physical is None:
            above = above.parent
        return None if above is None else above.physical

    def _unbound_nodes(self, cell: PhysicalCell | None) -> list[str]:
        """Return the names of the nodes in a physical cell that are not bound to a virtual one."""
        leaves = self._occupancy.clusters.cells.physical.leaves
        return [name for name in (cell.nodes if cell else ()) if leaves[name][0].host.virtual is None]

    def used(self, groups: Iterable[AffinityGroup]) -> Ints:
        """Return the GPUs that gangs hold on each node, in the order of `cells`."""
        found = np.zeros(len(self.cells), np.int64)
        for group in groups:
            for cell, gpus in held_by(group).items():
                found[self._at[cell]] += gpus
        return found

    def allocations(self, rows: Sequence[tuple[int, AffinityGroup]], snapshot: Snapshot) -> Allocations:
        """Return what gangs hold.

        Args:
            rows: The row of the job of each.
            snapshot: The CPUs and the memory that it holds.
        """
        place = np.empty(len(self.cells), np.int64)
        place[self.order] = np.arange(len(self.cells))
        there = _held_on_nodes(snapshot, {group.name for _, group in rows})
        held = [
            (row, int(place[self._at[cell]]), gpus, *_share(there.get((group.name, _node_of(cell))), gpus))
            for row, group in rows
            for cell, gpus in held_by(group).items()
        ]
        job, node, gpus, cpus, memory = np.array(held, np.float64).reshape(-1, 5).T
        return Allocations(job.astype(np.int64), node.astype(np.int64), Resources.of(gpus, cpus, memory))

    def request(self, request: Request) -> Request:
        """Return what a request demands of the virtual nodes.

        Nodes that it names or excludes are hardware: virtual nodes that are bound to other or to excluded hardware are excluded. An
        unbound one is checked when it is bound; so is a GPU type that is one of the types of a node with parts.
        """
        parts = self._parts if request.min_nodes > 1 else frozenset[str]()
        kind = "" if request.gpu_type in self._part_types else request.gpu_type
        if not (request.nodes or request.excluded or request.closed or parts) and kind == request.gpu_type:
            return request
        names = request.excluded | request.closed
        bound = ((cell.address, _node_of(cell)) for cell in self.cells if cell.physical is not None)
        refused = (address for address, node in bound if node in names or (request.nodes and node not in request.nodes))
        excluded = parts.union(refused)
        return replace(request, nodes=frozenset(), excluded=excluded, closed=frozenset(), gpu_type=kind)

    @cached_property
    def _parts(self) -> frozenset[str]:
        """The names of the virtual nodes that are parts of a node."""
        return frozenset(cell.address for cell in self.cells if cell.level < cell.chain.node_level)

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
                bound = (cell.virtual for cell in _up_to_node(leaf) if cell.virtual is not None)
                usable[[self._at[cell] for cell in bound if cell in self._at]] = False
        return usable


def held_by(group: AffinityGroup) -> Counter[VirtualCell]:
    """Return the GPUs that a gang holds on each of its virtual nodes. Those of a pod are on one node, maybe in several parts."""
    return Counter(leaf.host for pod in group.virtual or () for leaf in pod if leaf is not None)


def part_types(nodes: Nodes) -> frozenset[str]:
    """Return the GPU types that only name the parts of nodes, where a start selects them."""
    parts = nodes.topology.selectable_parts.tolist()
    several = {kind for kind, count in zip(nodes.gpu_type, parts, strict=True) if count > 1 and "," in kind}
    return frozenset(kind for types in several for kind in types.split(","))


def _up_to_node(leaf: PhysicalCell) -> Iterator[PhysicalCell]:
    cell: PhysicalCell | None = leaf
    while cell is not None and cell.level <= cell.chain.node_level:
        yield cell
        cell = cell.parent


def _node_of(cell: VirtualCell) -> str:
    return "" if cell.physical is None else cell.physical.nodes[0]


def _share(held: tuple[float, float, float] | None, gpus: int) -> tuple[float, float]:
    """Return the CPUs and MiB that belong to some of the GPUs that a job holds on a node."""
    every, cpus, memory = held or (0.0, 0.0, 0.0)
    return (cpus, memory) if gpus >= every else (cpus * gpus / every, memory * gpus / every)


def _held_on_nodes(snapshot: Snapshot, names: Set[str]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Return GPUs, CPUs and MiB of each of these jobs on each of its nodes, by the names of both."""
    jobs, nodes, held = snapshot.jobs, snapshot.nodes, snapshot.allocations
    of_jobs = np.array([job in names for job in jobs.id], np.bool_)
    rows = np.flatnonzero(of_jobs[held.job]) if len(held.job) else held.job
    amounts = held.resources.amount[rows, :COUNTED].tolist()
    return {
        (jobs.id[job], nodes.name[node]): (gpus, cpus, memory)
        for job, node, (gpus, cpus, memory) in zip(
            held.job[rows].tolist(), held.node[rows].tolist(), amounts, strict=True
        )
    }


def _bound(cells: Sequence[VirtualCell]) -> Ints:
    return np.array([_UNBOUND if cell.physical is None else cell.physical.number for cell in cells], np.int64)


def _numbered(values: Sequence[object]) -> Ints:
    number: dict[object, int] = {}
    return np.array([number.setdefault(value, len(number)) for value in values], np.int64)
