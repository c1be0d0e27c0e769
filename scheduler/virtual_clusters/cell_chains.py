"""Chains: the levels of the cell types below one topmost type, from the GPU (level 1) upward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.specification import CellSpecification, CellType

LEAF_LEVEL = 1
MOST_GPUS_PER_CELL = 1 << 20


@dataclass(frozen=True, slots=True)
class CellLevel:
    """One level of a chain.

    Attributes:
        cell_type: Name of the type.
        children: Children of each cell; 0 on the leaf level.
        leaves: GPUs of each cell.
        in_node: Whether a cell is smaller than a node.
        is_node: Whether a cell is a node.
    """

    cell_type: str
    children: int
    leaves: int
    in_node: bool
    is_node: bool


@dataclass(frozen=True, slots=True)
class CellChain:
    """The levels below one topmost cell type.

    Attributes:
        name: The topmost type.
        levels: The leaf level first; `at(1)` is the leaf level.
    """

    name: str
    levels: tuple[CellLevel, ...]

    @property
    def top(self) -> int:
        """The topmost level."""
        return len(self.levels)

    @property
    def leaf_type(self) -> str:
        """The GPU type."""
        return self.levels[0].cell_type

    @property
    def node_level(self) -> int:
        """The level of the nodes."""
        return next(level for level in range(LEAF_LEVEL, self.top + 1) if self.at(level).is_node)

    def at(self, level: int) -> CellLevel:
        """Return a level by its number, 1 for the leaf level."""
        return self.levels[level - 1]

    def level_of(self, cell_type: str) -> int | None:
        """Return the number of the level of a type; None: the chain does not have it."""
        return next((number for number, level in enumerate(self.levels, 1) if level.cell_type == cell_type), None)


def chains_of(spec: CellSpecification) -> dict[str, CellChain]:
    """Return the chain of each topmost physical cell type, in the order of the physical cells.

    Raises:
        UsageError: A type is unknown, contains itself, has no positive number of children, or a chain does not have one node level.
    """
    for name, cell_type in spec.cell_types.items():
        if cell_type.count < 1:
            raise UsageError(f"cell type {name}: {cell_type.count} children; give a number above 0")
    found: dict[str, CellChain] = {}
    for cell in spec.physical_cells:
        if cell.cell_type not in found:
            found[cell.cell_type] = _chain(cell.cell_type, spec.cell_types)
    return found


def _chain(name: str, types: Mapping[str, CellType]) -> CellChain:
    if name not in types:
        raise UsageError(f"physical cells: no such cell type {name!r}; there are {', '.join(types) or 'none'}")
    names = _downward(name, types)
    nodes = [each for each in names if each in types and types[each].is_node]
    if len(nodes) != 1:
        raise UsageError(f"cell chain {name}: {len(nodes)} node levels; exactly one cell type of a chain is a node")
    levels: list[CellLevel] = []
    for each in reversed(names):
        levels.append(_level(each, types, levels, below_node=nodes[0] not in [level.cell_type for level in levels]))
    return CellChain(name, tuple(levels))


def _downward(name: str, types: Mapping[str, CellType]) -> list[str]:
    names = [name]
    while names[-1] in types:
        child = types[names[-1]].child
        if child in names:
            raise UsageError(f"cell type {child} contains itself")
        names.append(child)
    return names


def _level(name: str, types: Mapping[str, CellType], below: list[CellLevel], *, below_node: bool) -> CellLevel:
    if name not in types:
        return CellLevel(name, 0, 1, in_node=True, is_node=False)
    declared = types[name]
    leaves = declared.count * below[-1].leaves
    if leaves > MOST_GPUS_PER_CELL:
        raise UsageError(f"cell type {name}: {leaves} GPUs in one cell; {MOST_GPUS_PER_CELL} is the most")
    return CellLevel(name, declared.count, leaves, below_node and not declared.is_node, declared.is_node)
