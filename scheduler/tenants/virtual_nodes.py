"""The virtual nodes of one virtual cluster (VC), on which it decides as if they were a cluster of its own.

A virtual node that is not bound to hardware is free. The virtual nodes of one cell of the VC are close to each other; those of
different cells are far apart, wherever they are bound. Nodes that are bound come first, in the order of the hardware, so that the
decision depends on the snapshot alone and not on which of several equal virtual cells a job holds; then those of small cells. Nodes
of pinned cells come last: they remain free for jobs that name their hardware or its features.

A part of a node that a VC owns is a virtual node with the GPUs of the part. Several of them may be bound to parts of one node, so
that a request of two nodes or more uses whole nodes only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Nodes, Request
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.cell_rows import CellRows
from tiresias.scheduler.tenants.free_cells import CellLevel
from tiresias.scheduler.tenants.hardware_rows import HardwareRows
from tiresias.scheduler.tenants.node_conditions import Condition
from tiresias.scheduler.tenants.suitable_nodes import SuitableNodes
from tiresias.scheduler.tenants.virtual_node_bindings import HeldNodes, VirtualNodeBindings
from tiresias.scheduler.tenants.virtual_node_order import VirtualNodeOrder
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell


class _Hardware(NamedTuple):
    """What else than the gangs of a VC decides on its virtual nodes: they are the same as long as these numbers are.

    Attributes:
        health_changes: Of `CellOccupancy`.
        binding_changes: Of `VirtualTree`; 0 while all nodes are healthy, as its gangs alone change its bindings then.
        short: As of `VirtualNodes._short`.
    """

    health_changes: int
    binding_changes: int = 0
    short: tuple[int, ...] = ()


class _UnboundNodes(NamedTuple):
    """The positions of the virtual nodes that are not bound, the last one in their order first.

    Attributes:
        below_bound: By the hardware to which they can be bound, where a cell above them is bound.
        below_free: The other ones by their preassigned cells.
    """

    below_bound: dict[frozenset[str], list[int]]
    below_free: dict[VirtualCell, list[int]]


class VirtualNodes:
    """The virtual nodes of one VC.

    Attributes:
        cells: Their cells.
        names: Their addresses.
    """

    def __init__(self, occupancy: CellOccupancy, cluster: str, hardware: Nodes, rows: CellRows) -> None:
        """`hardware`: the nodes of which the cells consist. `rows`: their rows."""
        self._occupancy, self._rows, self._row = occupancy, rows, rows.of_node
        self._part_types = part_types(hardware)
        self._tree = occupancy.clusters.cells.clusters[cluster]
        self.cells = list(occupancy.places[cluster])
        self.names = tuple(cell.address for cell in self.cells)
        self._order = VirtualNodeOrder(self.cells, self.names, self.gpus, len(hardware.topology.groups))
        self._cluster = cluster
        self._changes, self._hardware_key = -1, _Hardware(-1)  # when the nodes were last read
        self._held: HeldNodes | None = None
        self._bindings: VirtualNodeBindings | None = None

    @cached_property
    def gpus(self) -> Ints:
        """GPUs of each virtual node."""
        return np.array([cell.chain.at(cell.level).leaves for cell in self.cells], np.int64)

    @cached_property
    def total(self) -> int:
        """GPUs of all virtual nodes."""
        return int(self.gpus.sum())

    @property
    def bindings(self) -> VirtualNodeBindings:
        """The nodes as the cells are now; the same object while they are the same.

        O(nodes x levels), or O(levels) if since the last call no gang of the VC has changed its cells, and bad hardware has not
        changed its bindings.
        """
        changes, hardware = self._occupancy.changes[self._cluster], self._hardware_now()
        if self._held is None or changes != self._changes:
            self._changes, self._held, self._bindings = changes, self._held_now(), None
        if self._bindings is None or hardware != self._hardware_key:
            found, self._hardware_key = self._read(self._held), hardware
            if self._bindings is None or not self._bindings.equals(found):
                self._bindings = found
        return self._bindings

    def _hardware_now(self) -> _Hardware:
        occupancy = self._occupancy
        if not occupancy.clusters.cells.bad.nodes:
            return _Hardware(occupancy.health_changes)
        return _Hardware(occupancy.health_changes, self._tree.binding_changes, self._short)

    def _read(self, held: HeldNodes) -> VirtualNodeBindings:
        number = np.concatenate([view.hardware for view in self._tree.node_views])
        row = self._rows_now(number)
        usable = self._usable_now(row) & ~self._short_now(row)
        used = np.bincount(held.at, held.gpus, len(self.cells)).astype(np.int64)
        free = int((self.gpus - used)[usable].sum())
        possible = self._possible_now(np.flatnonzero(row < 0).tolist())
        return VirtualNodeBindings(self._order.now(number), row, usable, possible, held, used, usable[held.at], free)

    @cached_property
    def _hardware(self) -> tuple[Ints, Ints]:
        """The rows of the physical cells of the chains and levels of the nodes, and where those of each node begin there."""
        levels = [(cell.chain.name, cell.level) for cell in self.cells]
        rows = {each: self._rows.of_level(*each) for each in dict.fromkeys(levels)}
        ends = np.cumsum([len(each) for each in rows.values()]).tolist()
        first = dict(zip(rows, (0, *ends), strict=False))
        return np.concatenate(list(rows.values())), np.array([first[each] for each in levels], np.int64)

    def _rows_now(self, number: Ints) -> Ints:
        """Return the row of the hardware of each node. `number`: of its physical cell."""
        rows, first = self._hardware
        return np.where(number >= 0, rows[first + number], -1)

    def _held_now(self) -> HeldNodes:
        held = self._occupancy.held[self._cluster]
        places, gpus = zip(*held.values(), strict=True) if held else ((), ())
        count = np.fromiter(map(len, places), np.int64, len(places))
        at, of_each = (np.fromiter(chain.from_iterable(each), np.int64) for each in (places, gpus))
        return HeldNodes(tuple(held), count, at, of_each)

    def _usable_now(self, row: Ints) -> Bools:
        """Return whether the hardware of each node is healthy. `row`: that of its hardware; -1: it is not bound."""
        bad = self._occupancy.clusters.cells.bad.nodes
        healthy = np.ones(len(self._row) + 1, np.bool_)
        healthy[[self._row[node] for node in bad]] = False
        return healthy[row]

    @cached_property
    def _preassigned(self) -> dict[tuple[str, int], Ints]:
        """The positions of the nodes that the VC owns as such, by chain and level."""
        found = dict[tuple[str, int], list[int]]()
        for at, cell in enumerate(self.cells):
            if cell.preassigned is cell:
                found.setdefault((cell.chain.name, cell.level), []).append(at)
        return {level: np.array(at, np.int64) for level, at in found.items()}

    def _short_now(self, row: Ints) -> Bools:
        """Return the nodes for which no healthy hardware is left if the VC uses all its others. `row`: as of `_usable_now`.

        Without them the policy of the VC would count on more nodes than it can have, and jobs would lose their cells to one that
        cannot start.
        """
        found = np.zeros(len(row), np.bool_)
        for at, short in zip(self._preassigned.values(), self._short, strict=False):
            unbound = at[row[at] < 0]
            found[unbound[max(len(unbound) - short, 0) :]] = True
        return found

    @property
    def _short(self) -> tuple[int, ...]:
        """For each item of `_preassigned` how many unused cells lack healthy hardware; () while all hardware is healthy."""
        cells = self._occupancy.clusters.cells
        if not cells.bad.nodes:
            return ()
        of_chain = {name: cells.chains[name].short(self._cluster) for name, _ in self._preassigned}
        return tuple([of_chain[name][level] for name, level in self._preassigned])

    def _possible_now(self, unbound: Sequence[int]) -> dict[int, frozenset[str]]:
        """Return the hardware to which nodes can be bound that are below a bound cell."""
        found, known = dict[int, frozenset[str]](), dict[PhysicalCell, frozenset[str]]()
        for at in unbound:
            above = _bound_above(self.cells[at])
            if above is not None:
                if above not in known:
                    known[above] = self._unbound_nodes(above)
                found[at] = known[above]
        return found

    def _unbound_nodes(self, cell: PhysicalCell) -> frozenset[str]:
        """Return the names of the nodes in a physical cell that are not bound to a virtual one."""
        leaves = self._occupancy.clusters.cells.physical.leaves
        return frozenset([name for name in cell.nodes if leaves[name][0].host.virtual is None])

    def features(self, bindings: VirtualNodeBindings, hardware: HardwareRows) -> tuple[frozenset[str], ...]:
        """Return the features of each node, in their order: of its hardware, else of hardware to which it can be bound.

        As many nodes that are not bound have a feature as of `_shares`. Where no job requests features, they are left out.
        """
        suitable, order, row = hardware.suitable, bindings.ordered.order, bindings.row
        if not suitable.features:
            return (frozenset(),) * len(self.cells)
        features, groups = hardware.nodes.features, self._unbound_groups(bindings)
        found = defaultdict[int, set[str]](set)
        for name in suitable.features:
            for nodes, share in self._shares(Condition(frozenset({name})), groups, suitable):
                for at in nodes[:share]:
                    found[at].add(name)
        return tuple([features[row[at]] if row[at] >= 0 else frozenset(found.get(at, ())) for at in order.tolist()])

    def _shares(
        self, condition: Condition, groups: _UnboundNodes, suitable: SuitableNodes
    ) -> Iterator[tuple[list[int], int]]:
        """Yield groups of unbound nodes, and how many of each can be bound to hardware that meets a condition.

        This is below the cell above them that is bound, else in a free cell of the level of their preassigned one. They are the
        first nodes of the group, which come last in the order of the nodes, as most jobs take the first ones.
        """
        suits = suitable.suiting(condition)
        for possible, nodes in groups.below_bound.items():
            yield nodes, sum(bool(suits[self._row[name]]) for name in possible)
        cells = sorted(groups.below_free, key=lambda cell: -cell.level)
        shares = suitable.shares(condition, [(cell.chain.name, cell.level) for cell in cells])
        yield from zip([groups.below_free[cell] for cell in cells], shares, strict=True)

    def _unbound_groups(self, bindings: VirtualNodeBindings) -> _UnboundNodes:
        order = bindings.ordered.order
        found = _UnboundNodes(defaultdict(list), defaultdict(list))
        for at in order[bindings.row[order] < 0][::-1].tolist():
            possible = bindings.possible.get(at)
            if possible is None:
                found.below_free[self.cells[at].preassigned].append(at)
            else:
                found.below_bound[possible].append(at)
        return found

    def unbound(self, bindings: VirtualNodeBindings) -> Mapping[CellLevel, int]:
        """Return the number of preassigned cells of each level that are not bound."""
        first, levels, of_first = self._first_nodes
        is_unbound = bindings.row[first] < 0
        if bindings.possible:
            is_unbound &= ~np.isin(first, list(bindings.possible))
        counts = np.bincount(of_first[is_unbound], minlength=len(levels)).tolist()
        return {level: count for level, count in zip(levels, counts, strict=True) if count}

    @cached_property
    def _first_nodes(self) -> tuple[Ints, Sequence[CellLevel], Ints]:
        """The first node of each preassigned cell, the different levels of these cells, and which of them each cell has."""
        first = dict[VirtualCell, int]()
        for at, cell in enumerate(self.cells):
            first.setdefault(cell.preassigned, at)
        place = dict[CellLevel, int]()
        of_each = [place.setdefault((cell.chain.name, cell.level), len(place)) for cell in first]
        return np.array(list(first.values()), np.int64), tuple(place), np.array(of_each, np.int64)

    def last_resort(self, bindings: VirtualNodeBindings, hardware: HardwareRows) -> Bools | None:
        """Return the nodes, in their order, of which all possible hardware is a last resort, shape (nodes,); None: none is known.

        A node that may be bound outside of the cells that are bound already is none: `CellOccupancy` avoids hardware there.
        """
        avoided = hardware.nodes.last_resort
        if avoided is None:
            return None
        found = np.where(bindings.row >= 0, avoided[bindings.row], False)
        for at, possible in bindings.possible.items():
            found[at] = bool(possible) and all(avoided[self._row[name]] for name in possible)
        return np.asarray(found[bindings.ordered.order], np.bool_)

    def slowness(self, bindings: VirtualNodeBindings, hardware: HardwareRows) -> Floats | None:
        """Return the slowness of each node, in their order: of its hardware, else 1, shape (nodes,); None: all nodes are equal."""
        slowness = hardware.nodes.slowness
        if slowness is None:
            return None
        found = np.where(bindings.row >= 0, slowness[bindings.row], 1.0)
        return np.asarray(found[bindings.ordered.order], np.float64)

    def requests(
        self, requests: tuple[Request, ...], bindings: VirtualNodeBindings, hardware: HardwareRows
    ) -> tuple[Request, ...]:
        """Return what requests demand of the virtual nodes. Few of them name nodes, and equal ones are mostly one object."""
        seen = dict(zip(map(id, requests), requests, strict=True))
        changed = {
            at: found for at, each in seen.items() if (found := self._request(each, bindings, hardware)) is not each
        }
        return tuple([changed.get(id(each), each) for each in requests]) if changed else requests

    def _request(self, request: Request, bindings: VirtualNodeBindings, hardware: HardwareRows) -> Request:
        """Return what a request demands of the virtual nodes.

        More than one feature, and nodes that it names or excludes, concern hardware: virtual nodes that are bound to hardware that
        does not suit are excluded, and so many unbound ones that no more are left than can be bound to such hardware. A GPU type
        that is one of the types of a node with parts is checked when they are bound. A job uses all nodes that it names, and others
        where these are too few.
        """
        least = max(request.min_nodes, len(request.nodes))
        parts = self._parts if least > 1 else frozenset[str]()
        kind = "" if request.gpu_type in self._part_types else request.gpu_type
        condition = Condition.of(request)
        if not condition.is_one_feature:
            refused = parts.union(self._refused(condition, bindings, hardware.suitable))
            names = frozenset[str]()
            if request.nodes and len(self.names) - len(refused) == len(request.nodes):
                names = frozenset(self.names) - refused
                refused = parts.union(self._refused(condition.on_others_too, bindings, hardware.suitable)) - names
            anywhere = replace(request, features=frozenset(), nodes=names, closed=frozenset())
            return replace(anywhere, excluded=refused, min_nodes=least, gpu_type=kind)
        if parts or kind != request.gpu_type:
            return replace(request, excluded=parts, gpu_type=kind)
        return request

    def _refused(self, condition: Condition, bindings: VirtualNodeBindings, suitable: SuitableNodes) -> Iterator[str]:
        """Yield the names of the virtual nodes that do not meet a condition."""
        suits, row = suitable.suiting(condition), bindings.row
        refused = np.flatnonzero((row >= 0) & ~suits[row]).tolist()
        for nodes, share in self._shares(condition, self._unbound_groups(bindings), suitable):
            refused += nodes[share:]
        yield from (self.names[at] for at in refused)

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


def part_types(nodes: Nodes) -> frozenset[str]:
    """Return the GPU types that only name the parts of nodes, where a start selects them."""
    parts = nodes.topology.selectable_parts.tolist()
    several = {kind for kind, count in zip(nodes.gpu_type, parts, strict=True) if count > 1 and "," in kind}
    return frozenset(kind for types in several for kind in types.split(","))


def _bound_above(cell: VirtualCell) -> PhysicalCell | None:
    """Return the hardware of the nearest cell above that is bound."""
    above = cell.parent
    while above is not None and above.physical is None:
        above = above.parent
    return None if above is None else above.physical
