"""Pinned cells: which cell of the hardware is the one that a virtual cluster (VC) names by its nodes, and by GPUs of one node.

The cells of a cluster are made level by level (`cells_of_topology.py`), and each one is looked up here. What no cell matches is
refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from tiresias.errors import UsageError
from tiresias.scheduler.host_lists import compressed
from tiresias.scheduler.model import Nodes
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.topology_tree import NODE

_MAX_SHOWN = 60  # characters of a host list in a message


@dataclass(frozen=True, slots=True)
class _Pin:
    """A pinned cell of a VC. `rows`: those of its nodes."""

    tenant: str
    cell: DeclaredCells
    rows: frozenset[int]


class PinnedCells:
    """The pinned cells of all VCs.

    Args:
        nodes: The nodes.
        tenants: The VCs.

    Raises:
        UsageError: A node or a level does not exist, or two of the cells overlap.
    """

    def __init__(self, nodes: Nodes, tenants: Sequence[DeclaredTenant]) -> None:
        self._nodes = nodes
        self._pins = [self._pin(tenant.name, cell) for tenant in tenants for cell in tenant.cells if cell.nodes]
        on_node: defaultdict[int, list[_Pin]] = defaultdict(list)
        for pin in self._pins:
            for row in pin.rows:
                on_node[row].append(pin)
        for pins in on_node.values():
            for one, other in combinations(pins, 2):
                _check_apart(one, other)
        self._left = {(pin.cell.level, pin.rows, frozenset(pin.cell.gpus)): pin for pin in self._pins}
        self._levels = {pin.cell.level for pin in self._pins}

    def _pin(self, tenant: str, cell: DeclaredCells) -> _Pin:
        where, topology, gpus = f"virtual cluster {tenant}", self._nodes.topology, self._nodes.gpus
        unknown = [name for name in cell.nodes if name not in self._row or not gpus[self._row[name]]]
        if unknown:
            raise UsageError(f"{where}: nodes = {cell.hardware[:_MAX_SHOWN]}: there is no node {unknown[0]} with GPUs")
        levels = (*topology.group_names, NODE, *topology.part_names)
        if cell.level not in levels:
            raise UsageError(
                f"{where}: nodes = {cell.hardware[:_MAX_SHOWN]}: no level {cell.level}; there are {', '.join(levels)}"
            )
        return _Pin(tenant, cell, frozenset(self._row[name] for name in cell.nodes))

    @cached_property
    def _row(self) -> Mapping[str, int]:
        return {name: row for row, name in enumerate(self._nodes.name)}

    def of(self, tenant: str) -> tuple[str, ...]:
        """Return the identifiers of the pinned cells of a VC."""
        return tuple(pin.cell.hardware for pin in self._pins if pin.tenant == tenant)

    def are_in(self, row: int) -> bool:
        """Return whether a part of a node is pinned."""
        return row in self._divided

    @cached_property
    def _divided(self) -> frozenset[int]:
        return frozenset(row for pin in self._pins if pin.cell.gpus for row in pin.rows)

    def match(self, level: str, rows: Sequence[int], gpus: Sequence[int] = ()) -> str:
        """Return the identifier of a cell of the hardware; "": it is not pinned.

        Args:
            level: Its level.
            rows: Its nodes.
            gpus: Indexes of its GPUs, where it is a part of a node.
        """
        if level not in self._levels:
            return ""
        pin = self._left.pop((level, frozenset(rows), frozenset(gpus)), None)
        return pin.cell.hardware if pin is not None else ""

    def check_matched(self) -> None:
        """Check that all pinned cells have been found.

        Raises:
            UsageError: The nodes or GPUs of one of them are not one cell of its level.
        """
        for pin in self._left.values():
            raise UsageError(f"virtual cluster {pin.tenant}: {self._mismatch(pin)}")

    def _mismatch(self, pin: _Pin) -> str:
        """Return why no cell of the hardware is this one."""
        cell, topology, first = pin.cell, self._nodes.topology, pin.cell.nodes[0]
        what = f"nodes = {cell.hardware[:_MAX_SHOWN]} is not one cell of level {cell.level}"
        if cell.level in topology.part_names:
            if len(cell.nodes) > 1 or not cell.gpus:
                return f"{what}; give one node and gpus, the indexes of the part's GPUs"
            return f"{what}; {first} has {self._parts(pin)}"
        if cell.gpus:
            return f"{what}, which has whole nodes; leave out gpus"
        if cell.level == NODE:
            return f"{what}; give each node an entry of its own"
        group = topology.groups[topology.group_names.index(cell.level)]
        near = (group == group[self._row[first]]) & (self._nodes.gpus > 0)
        names = [name for name, is_near in zip(self._nodes.name, near.tolist(), strict=True) if is_near]
        if set(names) == set(cell.nodes):
            return f"{what}: its nodes differ, and those of each kind are a cell"
        return f"{what}; that of {first} has {compressed(names)[:_MAX_SHOWN]}"

    def _parts(self, pin: _Pin) -> str:
        """Return the parts of a pin's node on its level."""
        topology, [row] = self._nodes.topology, pin.rows
        gpus, count = int(topology.gpus[row]), int(topology.parts[topology.part_names.index(pin.cell.level)][row])
        if topology.selectable_parts[row] < 2 or count < 2:
            return "no cells of this level"
        size = gpus // count
        return " and ".join(
            DeclaredCells("", 1, "", (pin.cell.nodes[0],), tuple(range(first, first + size))).hardware
            for first in range(0, gpus, size)
        )


def _check_apart(one: _Pin, other: _Pin) -> None:
    """Check that two pinned cells with a node in common have no GPU in common."""
    if one.cell.gpus and other.cell.gpus and not set(one.cell.gpus) & set(other.cell.gpus):
        return
    what = f"virtual cluster {other.tenant}: {other.cell}"
    if one.tenant == other.tenant and one.cell == other.cell:
        raise UsageError(f"{what} is given twice")
    relation = "belongs to" if one.cell == other.cell else f"overlaps {one.cell} of"
    raise UsageError(f"{what} {relation} virtual cluster {one.tenant}; give this hardware to one of them")
