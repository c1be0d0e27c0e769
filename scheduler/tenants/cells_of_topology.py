"""The cells of a cluster, from its topology, and what each virtual cluster (VC) owns of them.

Each level of the topology from the node upward is a level of cells. Cells of a level have one type if they have equal children. A
type has the name of its level, or leaf#1, leaf#2 and so on where the cells of the level have several types. A group with nodes of
several types is a cell of each type.

A VC owns cells of a type, on any hardware, and pinned cells, which name theirs (`pinned_cells.py`).

Levels below the node are levels of cells where a start selects the parts of its nodes (`Topology.selectable`). A node of which a
level is not known lacks this level. So does one whose parts of the level are larger than those of the level above; one whose levels
do not fit into each other, or do not divide its GPUs equally, has no cells below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tiresias.errors import UsageError
from tiresias.scheduler.model import Nodes
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.pinned_cells import PinnedCells
from tiresias.scheduler.topology_tree import GPU, NODE
from tiresias.scheduler.virtual_clusters.specification import (
    CellSpecification,
    CellType,
    DeclaredCell,
    DeclaredVirtualCluster,
    OwnedCells,
)

Placed = list[tuple[tuple[int, ...], DeclaredCell]]  # cells of one level, each with the rows of its nodes


def cell_specification(nodes: Nodes, tenants: Sequence[DeclaredTenant]) -> CellSpecification:
    """Return the cells of the nodes and of the VCs. O(nodes x levels).

    Raises:
        UsageError: Two VCs have one name, or a VC owns cells of a level, type or GPU type that the nodes do not have or that is
            ambiguous; or a pinned cell is no cell, or overlaps another one. Whether there are enough cells is checked by
            `CellState`.
    """
    types, pins = _TypesOfCells(), PinnedCells(nodes, tenants)
    placed = _nodes(nodes, types, pins)
    topology = nodes.topology
    for name, group in zip(topology.group_names[::-1], topology.nearest_groups, strict=True):
        placed = _grouped(placed, name, group.tolist(), types, pins)
    pins.check_matched()
    physical = tuple(cell for _, cell in placed)
    chains = list(dict.fromkeys(cell.cell_type for cell in physical))
    return CellSpecification(types.declared, physical, _virtual_clusters(tenants, types, chains, pins))


def shape_of(nodes: Nodes) -> Hashable:
    """Return all of the nodes on which their cells depend. O(nodes)."""
    topology = nodes.topology
    groups, parts = (tuple(level.tobytes() for level in levels) for levels in (topology.groups, topology.parts))
    chosen = topology.selectable
    below = () if chosen is None else (topology.part_names, parts, chosen.tobytes())
    return nodes.name, nodes.gpu_type, nodes.gpus.tobytes(), topology.group_names, groups, below


@dataclass
class _TypesOfCells:
    """The types that were found; `names` has the name of each (level, type of the children, number of children)."""

    declared: dict[str, CellType] = field(default_factory=dict)
    names: dict[tuple[str, str, int], str] = field(default_factory=dict)

    def declare(self, level: str, shapes: Iterable[tuple[str, int]]) -> None:
        """Name the types of a level by type and number of the children."""
        different = list(dict.fromkeys(shapes))
        for number, (child, count) in enumerate(different, 1):
            name = self.names[level, child, count] = f"{level}#{number}" if len(different) > 1 else level
            self.declared[name] = CellType(child, count, is_node=level == NODE)

    def below(self, chain: str) -> tuple[str, ...]:
        """Return a type and all below it, the GPU type last."""
        found = [chain]
        while found[-1] in self.declared:
            found.append(self.declared[found[-1]].child)
        return tuple(found)

    def level_of(self, name: str) -> str:
        """Return the level of a type."""
        return next((level for (level, _, _), each in self.names.items() if each == name), GPU)


def _nodes(nodes: Nodes, types: _TypesOfCells, pins: PinnedCells) -> Placed:
    """Return a cell for each node with GPUs."""
    inside = [(_gpu_type(nodes, row), gpus) for row, gpus in enumerate(nodes.gpus.tolist())]
    counts = [_parts(nodes, row) for row in range(len(nodes))]
    for level in nodes.topology.part_names[::-1]:
        inside = _divided(inside, [each.get(level, 0) for each in counts], level, types)
    types.declare(NODE, (shape for shape in inside if shape[1]))
    rows = enumerate(zip(nodes.name, inside, nodes.gpus.tolist(), strict=True))
    return [
        ((row,), _node(name, types.names[NODE, shape[0], shape[1]], row, range(gpus), types, pins))
        for row, (name, shape, gpus) in rows
        if shape[1]
    ]


def _node(name: str, kind: str, row: int, gpus: range, types: _TypesOfCells, pins: PinnedCells) -> DeclaredCell:
    parts = _pinned_parts(kind, row, gpus, types, pins) if pins.are_in(row) else ()
    return DeclaredCell(kind, name, pins.match(NODE, (row,)), parts)


def _pinned_parts(
    kind: str, row: int, gpus: range, types: _TypesOfCells, pins: PinnedCells
) -> tuple[DeclaredCell, ...]:
    """Return the parts of a node, or of a part of it, of which some are pinned; () where they are GPUs. `gpus`: their indexes."""
    child = types.declared[kind].child
    if child not in types.declared:
        return ()
    size, level = len(gpus) // types.declared[kind].count, types.level_of(child)
    parts = [gpus[first : first + size] for first in range(0, len(gpus), size)]
    return tuple(
        DeclaredCell(pinned=pins.match(level, (row,), part), children=_pinned_parts(child, row, part, types, pins))
        for part in parts
    )


def _gpu_type(nodes: Nodes, row: int) -> str:
    """Return the GPU type of a node. Several types are those of its parts, where it has cells below it."""
    kind = nodes.gpu_type[row]
    several = "," in kind and nodes.topology.selectable_parts[row] > 1
    return GPU if several else kind or GPU


def _parts(nodes: Nodes, row: int) -> dict[str, int]:
    """Return the number of cells of a node on each level below it that it has, from top to bottom."""
    topology, found = nodes.topology, dict[str, int]()
    if topology.selectable_parts[row] > 1:
        for name, count in zip(topology.part_names, (int(level[row]) for level in topology.parts), strict=True):
            if count > 1 and count >= max(found.values(), default=1):
                found[name] = count
    return found


def _divided(
    inside: Sequence[tuple[str, int]], counts: Sequence[int], level: str, types: _TypesOfCells
) -> list[tuple[str, int]]:
    """Return type and number of the cells below each node, where those so far are divided among `counts` cells of a level; 0: the
    node lacks the level."""
    shapes = [(kind, size // count) if count else None for (kind, size), count in zip(inside, counts, strict=True)]
    types.declare(level, (shape for shape in shapes if shape))
    return [
        (types.names[level, shape[0], shape[1]], count) if shape else before
        for before, shape, count in zip(inside, shapes, counts, strict=True)
    ]


def _grouped(placed: Placed, level: str, group: Sequence[int], types: _TypesOfCells, pins: PinnedCells) -> Placed:
    """Return the cells of the level above: one for each group and type of the children."""
    together: defaultdict[tuple[int, str], Placed] = defaultdict(list)
    for rows, cell in placed:
        together[group[rows[0]], cell.cell_type].append((rows, cell))
    types.declare(level, ((kind, len(children)) for (_, kind), children in together.items()))
    found = []
    for (at, kind), children in together.items():
        rows = tuple(row for rows, _ in children for row in rows)
        name, parts = types.names[level, kind, len(children)], tuple(cell for _, cell in children)
        found.append((rows, DeclaredCell(name, str(at), pins.match(level, rows), parts)))
    return found


def _virtual_clusters(
    tenants: Sequence[DeclaredTenant], types: _TypesOfCells, chains: Sequence[str], pins: PinnedCells
) -> Mapping[str, DeclaredVirtualCluster]:
    found: dict[str, DeclaredVirtualCluster] = {}
    for tenant in tenants:
        if tenant.name in found:
            raise UsageError(f"virtual cluster {tenant.name}: it is declared twice")
        anywhere = [each for each in tenant.cells if not each.nodes]
        owned = tuple(OwnedCells(_path(tenant.name, each, types, chains), each.count) for each in anywhere)
        found[tenant.name] = DeclaredVirtualCluster(owned, pins.of(tenant.name))
    return found


def _path(tenant: str, asked: DeclaredCells, types: _TypesOfCells, chains: Sequence[str]) -> str:
    """Return the chain and the type of declared cells. Raises UsageError where there is none, or more than one."""
    every = [(chain, name) for chain in chains for name in types.below(chain)[:-1]]
    found = [path for path in every if asked.level in (path[1], types.level_of(path[1]), _dotted(*path))]
    if not found:
        there = ", ".join(dict.fromkeys(name for _, name in every))
        raise UsageError(f"virtual cluster {tenant}: no cells of level {asked.level}; there are {there or 'none'}")
    paths = [path for path in found if asked.gpu_type in ("", types.below(path[0])[-1])]
    if not paths:
        kinds = ", ".join(dict.fromkeys(types.below(chain)[-1] for chain, _ in found))
        raise UsageError(
            f"virtual cluster {tenant}: no cells of level {asked.level} with GPUs of type {asked.gpu_type}; there are {kinds}"
        )
    if len(paths) > 1:
        several = ", ".join(_dotted(*path) for path in paths)
        raise UsageError(
            f"virtual cluster {tenant}: the cells of level {asked.level} differ; name a GPU type or one of {several}"
        )
    return _dotted(*paths[0])


def _dotted(chain: str, name: str) -> str:
    return chain if chain == name else f"{chain}.{name}"
