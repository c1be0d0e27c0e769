"""The physical cells of a specification, and where its nodes and GPUs are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL, CellChain
from tiresias.scheduler.virtual_clusters.specification import CellSpecification, DeclaredCell


@dataclass
class PhysicalTree:
    """All physical cells.

    Attributes:
        cells: For each chain the cells of each level; index 0 is unused.
        pinned: Pinned cells by identifier.
        leaves: For each node its leaves, in the order of the chains.
        by_index: Leaves by chain, node and GPU index.
    """

    cells: dict[str, list[list[PhysicalCell]]] = field(default_factory=dict)
    pinned: dict[str, PhysicalCell] = field(default_factory=dict)
    leaves: dict[str, list[PhysicalCell]] = field(default_factory=dict)
    by_index: dict[tuple[str, str, int], PhysicalCell] = field(default_factory=dict)

    def leaf(self, chain: str, node: str, index: int) -> PhysicalCell | None:
        """Return a GPU; where its chain does not have it, that of another chain. None: there is none."""
        found = self.by_index.get((chain, node, index))
        if found is not None:
            return found
        others = (self.by_index.get((name, node, index)) for name in self.cells)
        return next((leaf for leaf in others if leaf is not None), None)


def physical_tree(spec: CellSpecification, chains: Mapping[str, CellChain]) -> PhysicalTree:
    """Build the cells.

    Raises:
        UsageError: A cell has another number of children than its type, an index of a GPU is not a number, two GPUs of a node have
            the same index, or two cells the same pinned identifier.
    """
    tree = PhysicalTree({name: [[] for _ in range(chain.top + 1)] for name, chain in chains.items()})
    for position, declared in enumerate(spec.physical_cells):
        chain = chains[declared.cell_type]
        _add(tree, chain, chain.top, declared, position, None, "")
    for cells in tree.cells.values():
        for leaf in cells[LEAF_LEVEL]:
            _register(tree, leaf)
    return tree


def _add(
    tree: PhysicalTree,
    chain: CellChain,
    level: int,
    declared: DeclaredCell,
    position: int,
    parent: PhysicalCell | None,
    node: str,
) -> PhysicalCell:
    own = declared.address or str(position)
    address = f"{parent.address}/{own}" if parent else own
    cells = tree.cells[chain.name][level]
    cell = PhysicalCell(chain, level, len(cells), address, parent)
    cells.append(cell)
    _pin(tree, cell, declared.pinned)
    node = own if chain.at(level).is_node else node
    if level == LEAF_LEVEL:
        cell.leaf_index = _index(own, cell)
    first = 0 if chain.at(level).is_node else position * chain.at(level).children
    for at, child in enumerate(_children(declared, cell)):
        cell.children.append(_add(tree, chain, level - 1, child, first + at, cell, node))
    above = level > chain.node_level
    cell.nodes = tuple(name for child in cell.children for name in child.nodes) if above else (node,)
    return cell


def _children(declared: DeclaredCell, cell: PhysicalCell) -> tuple[DeclaredCell, ...]:
    count = cell.chain.at(cell.level).children
    children = declared.children or (DeclaredCell(),) * count
    if len(children) != count:
        raise UsageError(f"cell {cell!r}: {len(children)} children, where its type has {count}")
    return children


def _pin(tree: PhysicalTree, cell: PhysicalCell, identifier: str) -> None:
    if not identifier:
        return
    if identifier in tree.pinned:
        raise UsageError(
            f"pinned cell {identifier}: two physical cells have it, {tree.pinned[identifier]!r} and {cell!r}"
        )
    tree.pinned[identifier], cell.pinned = cell, identifier


def _index(address: str, cell: PhysicalCell) -> int:
    if not (address.isdecimal() and len(address) < 10):
        raise UsageError(f"cell {cell!r}: the address of a GPU is its index on the node, a number")
    return int(address)


def _register(tree: PhysicalTree, leaf: PhysicalCell) -> None:
    node = leaf.nodes[0]
    key = (leaf.chain.name, node, leaf.leaf_index)
    if key in tree.by_index:
        raise UsageError(f"node {node}: two cells of chain {leaf.chain.name} are its GPU {leaf.leaf_index}")
    tree.by_index[key] = leaf
    tree.leaves.setdefault(node, []).append(leaf)
