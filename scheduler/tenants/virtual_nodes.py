"""The snapshot of one virtual cluster (VC): its jobs on its virtual nodes, as if it were a cluster of its own.

A virtual node that is not bound to hardware is free. The virtual nodes of one cell of the VC are close to each other; those of
different cells are far apart, wherever they are bound. Nodes that are bound come first, in the order of the hardware, so that the
decision depends on the snapshot alone and not on which of several equal virtual cells a job holds; then those of small cells. Nodes
of pinned cells come last: they remain free for jobs that name their hardware or its features.

A part of a node that a VC owns is a virtual node with the GPUs of the part. Several of them may be bound to parts of one node, so
that a request of two nodes or more uses whole nodes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from tiresias.scheduler.model import Allocations, Bools, Ints, Nodes, Request
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.hardware_rows import HardwareRows
from tiresias.scheduler.topology_tree import Topology
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell

_UNBOUND = np.iinfo(np.int64).max


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
class _OrderedNodes:
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


class VirtualNodes:
    """The virtual nodes of one VC.

    Attributes:
        cells: Their cells.
        names: Their addresses.
    """

    def __init__(self, occupancy: CellOccupancy, cluster: str, hardware: Nodes) -> None:
        """`hardware`: the nodes of which the cells consist."""
        self._occupancy = occupancy
        self._part_types = part_types(hardware)
        tree = occupancy.clusters.cells.clusters[cluster]
        views = [view.cells for view in (*tree.views.values(), *tree.pinned_views.values())]
        self.cells = [cell for cells in views for cell in cells if isinstance(cell, VirtualCell)]
        self.names = tuple(cell.address for cell in self.cells)
        self._at = {cell: at for at, cell in enumerate(self.cells)}
        self._levels, self._cluster = len(hardware.topology.groups), cluster
        self._held: tuple[int, HeldNodes] | None = None
        self._ordered: _OrderedNodes | None = None
        self._sorted = -1  # the changes of the VC at the last call of `sort`
        self._bound = np.full(len(self.cells), -1, np.int64)

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

    def sort(self, hardware: HardwareRows) -> None:
        """Order the nodes by the hardware to which they and the cells above them are bound.

        O(nodes x levels), or O(1) if no gang of the VC has changed its cells since the last call and no hardware is bad.
        """
        changes = self._occupancy.changes[self._cluster]
        if changes == self._sorted:
            return
        self._sorted, row = changes, hardware.row
        places = [-1 if cell.physical is None else row[cell.physical.nodes[0]] for cell in self.cells]
        self._bound = np.array(places, np.int64)  # the row of the hardware of each node; -1: it is not bound
        keys = [_bound(level)[group] for level, group in zip(self._distinct, self._groups_from_node, strict=True)]
        order = np.lexsort((np.arange(len(self.cells)), self._size, *keys, self._is_pinned, self._chains))
        if self._ordered is None or not np.array_equal(order, self._ordered.order):
            self._ordered = self._in_this_order(order)

    @cached_property
    def _is_pinned(self) -> Bools:
        hardware = [cell.preassigned.physical for cell in self.cells]
        return np.array([each is not None and bool(each.pinned) for each in hardware], np.bool_)

    def _in_this_order(self, order: Ints) -> _OrderedNodes:
        gpus, rows = self.gpus[order], order.tolist()
        names, types = (tuple([column[row] for row in rows]) for column in (self.names, self._types))
        topology = Topology.of_groups(gpus, [_in_order(level[order]) for level in self._groups])
        return _OrderedNodes(order, np.argsort(order), gpus, names, types, topology)

    @property
    def _now(self) -> _OrderedNodes:
        assert self._ordered is not None, "`sort` has been called"
        return self._ordered

    @cached_property
    def _size(self) -> Ints:
        return np.array([cell.preassigned.level for cell in self.cells], np.int64)

    @cached_property
    def _chains(self) -> Ints:
        return _numbered([cell.chain.name for cell in self.cells])

    @cached_property
    def _distinct(self) -> list[list[VirtualCell]]:
        """The nodes, then the different cells of each level above them, in the order of `_groups`."""
        return [self.cells, *(list(dict.fromkeys(level)) for level in self._above)]

    @cached_property
    def _groups_from_node(self) -> list[Ints]:
        return [np.arange(len(self.cells)), *self._groups]

    def gpus_held(self) -> HeldNodes:
        """Return what the guaranteed gangs of the VC hold. O(1), unless one of them has changed."""
        changes = self._occupancy.changes[self._cluster]
        if self._held is None or self._held[0] != changes:
            self._held = changes, self._read_held()
        return self._held[1]

    def _read_held(self) -> HeldNodes:
        held = self._occupancy.held[self._cluster]
        cells, gpus = zip(*chain.from_iterable(held.values()), strict=True) if held else ((), ())
        at = np.array(list(map(self._at.__getitem__, cells)), np.int64)
        count = np.array(list(map(len, held.values())), np.int64)
        return HeldNodes(tuple(held), count, at, np.array(gpus, np.int64))

    def nodes(self, hardware: HardwareRows) -> Nodes:
        """Return the nodes in their order, without what the guaranteed gangs hold.

        A node that is bound has the features, CPUs and memory of its hardware, without the GPUs of unmanaged jobs. Any other one
        has no limits, and all features of the nodes to which it can be bound: those below the cell above it that is bound, else
        those outside of pinned cells.
        """
        held = self.gpus_held()
        used = np.bincount(held.at, held.gpus, len(self.cells)).astype(np.int64)
        now, bound = self._now, self._bound
        cpus, memory = np.where(bound[:, None] >= 0, hardware.available[bound, 1:], np.inf)[now.order].T
        managed = np.where(bound >= 0, hardware.managed_gpus[bound], np.inf)
        free = (np.minimum(self.gpus, managed) - used)[now.order]
        return Nodes(
            now.names, now.gpus, Resources.of(free, cpus, memory), self.usable()[now.order], now.topology, now.types,
            self._features(hardware),
        )  # fmt: skip

    def _features(self, hardware: HardwareRows) -> tuple[frozenset[str], ...]:
        """Return the features of each node in their order."""
        row, features = hardware.row, hardware.nodes.features
        if len(hardware.all_features) == 0:
            return (frozenset(),) * len(self.cells)
        below: dict[object, frozenset[str]] = {None: hardware.unpinned_features}
        found = []
        order = self._now.order
        for at, place in zip(order.tolist(), self._bound[order].tolist(), strict=True):
            above = None if place >= 0 else self._bound_above(self.cells[at])
            if above not in below:
                below[above] = frozenset[str]().union(*(features[row[name]] for name in self._unbound_nodes(above)))
            found.append(features[place] if place >= 0 else below[above])
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

    def allocations(self, rows: Ints, position: Ints, hardware: HardwareRows) -> Allocations:
        """Return what the guaranteed gangs of the VC hold.

        Args:
            rows: The row of the job of each of them.
            position: The row of each job among those of the VC.
            hardware: The CPUs and the memory that they hold.
        """
        held = self.gpus_held()
        job = np.repeat(rows, held.count)
        cpus, memory = hardware.held(job, self._bound[held.at], held.gpus).T
        return Allocations(position[job], self._now.place[held.at], Resources.of(held.gpus, cpus, memory))

    def requests(self, requests: tuple[Request, ...]) -> tuple[Request, ...]:
        """Return what requests demand of the virtual nodes. Few of them name nodes, and equal ones are mostly one object."""
        seen = dict(zip(map(id, requests), requests, strict=True))
        changed = {at: found for at, each in seen.items() if (found := self.request(each)) is not each}
        return tuple([changed.get(id(each), each) for each in requests]) if changed else requests

    def request(self, request: Request) -> Request:
        """Return what a request demands of the virtual nodes.

        Nodes that it names or excludes are hardware: virtual nodes that are bound to other or to excluded hardware are excluded,
        and unbound ones that can only be bound to such hardware. Others are checked when they are bound; so is a GPU type that is
        one of the types of a node with parts.
        """
        parts = self._parts if request.min_nodes > 1 else frozenset[str]()
        kind = "" if request.gpu_type in self._part_types else request.gpu_type
        if not (request.nodes or request.excluded or request.closed or parts) and kind == request.gpu_type:
            return request
        names = request.excluded | request.closed
        refused = (cell.address for cell in self.cells if self._is_refused(cell, request.nodes, names))
        excluded = parts.union(refused)
        return replace(request, nodes=frozenset(), excluded=excluded, closed=frozenset(), gpu_type=kind)

    def _is_refused(self, cell: VirtualCell, named: Set[str], excluded: Set[str]) -> bool:
        """Return whether the hardware of a virtual node cannot be a node that a job can use. `named`: empty: any."""
        above = self._bound_above(cell)
        if cell.physical is not None:
            possible: Set[str] = {_node_of(cell)}
        elif above is not None:
            possible = set(self._unbound_nodes(above))
        else:
            return bool(named) and named <= self._occupancy.clusters.cells.pinned_nodes
        return possible <= excluded or (bool(named) and not possible & named)

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

    def usable(self) -> Bools:
        """Return whether the hardware of each node is healthy, in the order of `cells`."""
        usable = np.ones(len(self.cells), np.bool_)
        cells = self._occupancy.clusters.cells
        for node in cells.bad.nodes:
            for leaf in cells.physical.leaves[node]:
                bound = (cell.virtual for cell in _up_to_node(leaf) if cell.virtual is not None)
                usable[[self._at[cell] for cell in bound if cell in self._at]] = False
        return usable


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


def _bound(cells: Sequence[VirtualCell]) -> Ints:
    return np.array([_UNBOUND if cell.physical is None else cell.physical.number for cell in cells], np.int64)


def _numbered(values: Sequence[object]) -> Ints:
    number: dict[object, int] = {}
    return np.array([number.setdefault(value, len(number)) for value in values], np.int64)


def _in_order(groups: Ints) -> Ints:
    """Return the groups numbered as they first occur: the choice between equal ones depends on the order of the nodes alone."""
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    found: Ints = np.argsort(np.argsort(first))[group]
    return found
