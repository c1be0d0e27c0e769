"""The canonical order of the virtual nodes of one virtual cluster: by the hardware to which they and the cells above are bound."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.tenants.virtual_node_bindings import OrderedNodes
from tiresias.scheduler.topology_tree import Topology
from tiresias.scheduler.virtual_clusters.cell import VirtualCell

_UNBOUND = np.iinfo(np.int64).max


class VirtualNodeOrder:
    """The order of the virtual nodes.

    Args:
        cells: Their cells.
        names: Their addresses.
        gpus: Their GPUs, shape (nodes,).
        levels: Number of levels of the topology above the nodes.
    """

    def __init__(self, cells: Sequence[VirtualCell], names: Sequence[str], gpus: Ints, levels: int) -> None:
        self._cells, self._names, self._gpus, self._levels = cells, names, gpus, levels
        self._bound: list[
            Ints
        ] = []  # the hardware of the nodes and of the cells above them when they were last ordered
        self._ordered: OrderedNodes | None = None

    @cached_property
    def _types(self) -> tuple[str, ...]:
        return tuple("" if cell.chain.leaf_type == "gpu" else cell.chain.leaf_type for cell in self._cells)

    @cached_property
    def _above(self) -> list[list[VirtualCell]]:
        """For each level, the nearest first, the cell of each node; the topmost cell that the VC owns where there is none."""
        found, level = [], list(self._cells)
        for _ in range(self._levels):
            level = [cell.parent or cell for cell in level]
            found.append(level)
        return found

    @cached_property
    def _groups(self) -> list[Ints]:
        return [_numbered(level) for level in self._above]

    @cached_property
    def _distinct(self) -> list[list[VirtualCell]]:
        """The different cells of each level above the nodes, in the order of `_groups`."""
        return [list(dict.fromkeys(level)) for level in self._above]

    @cached_property
    def _is_pinned(self) -> Bools:
        hardware = [cell.preassigned.physical for cell in self._cells]
        return np.array([each is not None and bool(each.pinned) for each in hardware], np.bool_)

    @cached_property
    def _size(self) -> Ints:
        return np.array([cell.preassigned.level for cell in self._cells], np.int64)

    @cached_property
    def _chains(self) -> Ints:
        return _numbered([cell.chain.name for cell in self._cells])

    def now(self, number: Ints) -> OrderedNodes:
        """Return the nodes in their order. `number`: of the physical cell of each node, shape (nodes,); -1: it is not bound.

        O(nodes x levels) where a binding has changed since the last call. The same order is the same object.
        """
        bound = [np.where(number >= 0, number, _UNBOUND), *map(_hardware, self._distinct)]
        if self._ordered is not None and all(map(np.array_equal, bound, self._bound)):
            return self._ordered
        self._bound = bound
        above = [level[group] for level, group in zip(bound[1:], self._groups, strict=True)]
        order = np.lexsort((np.arange(len(number)), self._size, bound[0], *above, self._is_pinned, self._chains))
        if self._ordered is None or not np.array_equal(order, self._ordered.order):
            self._ordered = self._in_this_order(order)
        return self._ordered

    def _in_this_order(self, order: Ints) -> OrderedNodes:
        gpus, rows = self._gpus[order], order.tolist()
        names, types = (tuple([column[row] for row in rows]) for column in (self._names, self._types))
        topology = Topology.of_groups(gpus, [_in_order(level[order]) for level in self._groups])
        return OrderedNodes(order, np.argsort(order), gpus, names, types, topology)


def _hardware(cells: Sequence[VirtualCell]) -> Ints:
    return np.array([_UNBOUND if cell.physical is None else cell.physical.number for cell in cells], np.int64)


def _numbered(values: Sequence[object]) -> Ints:
    number: dict[object, int] = {}
    return np.array([number.setdefault(value, len(number)) for value in values], np.int64)


def _in_order(groups: Ints) -> Ints:
    """Return the groups numbered as they first occur: the choice between equal ones depends on the order of the nodes alone."""
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[group], np.int64)
