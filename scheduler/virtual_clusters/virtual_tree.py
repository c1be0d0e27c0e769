"""The virtual cells of each VC."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell
from tiresias.scheduler.virtual_clusters.cell_chains import CellChain
from tiresias.scheduler.virtual_clusters.node_view import NodeView, view_of
from tiresias.scheduler.virtual_clusters.specification import (
    CellSpecification,
    DeclaredVirtualCluster,
    OwnedCells,
)

MOST_CELLS = 1 << 22  # of one VC


@dataclass
class VirtualTree:
    """The cells of one VC.

    Attributes:
        preassigned: For each chain the topmost cells by level; index 0 is unused. Without pinned cells.
        pinned: The topmost cell of each pinned cell by identifier.
        views: For each chain the nodes on which the VC's jobs are placed.
        pinned_views: The same for each pinned cell.
        owned: For each chain the number of topmost cells of each level, pinned ones included.
    """

    preassigned: dict[str, list[list[VirtualCell]]] = field(default_factory=dict)
    pinned: dict[str, VirtualCell] = field(default_factory=dict)
    views: dict[str, NodeView] = field(default_factory=dict)
    pinned_views: dict[str, NodeView] = field(default_factory=dict)
    owned: dict[str, list[int]] = field(default_factory=dict)

    @property
    def node_views(self) -> tuple[NodeView, ...]:
        """All views, those of the pinned cells last."""
        return *self.views.values(), *self.pinned_views.values()

    @property
    def binding_changes(self) -> int:
        """How often its nodes have been bound to hardware, or released, or their hardware has become bad or healthy."""
        return sum([view.changes for view in self.node_views])

    def places(self) -> dict[VirtualCell, int]:
        """Return the place of each cell among those of all views. O(cells)."""
        nodes = [cell for view in self.node_views for cell in view.cells if isinstance(cell, VirtualCell)]
        return dict(zip(nodes, range(len(nodes)), strict=True))

    @property
    def topmost(self) -> list[VirtualCell]:
        """All topmost cells, the pinned ones last."""
        found = [cell for levels in self.preassigned.values() for level in levels for cell in level]
        return [*found, *self.pinned.values()]


def virtual_trees(
    spec: CellSpecification, chains: Mapping[str, CellChain], pinned: Mapping[str, PhysicalCell]
) -> dict[str, VirtualTree]:
    """Build the cells of all VCs.

    Raises:
        UsageError: A chain, a type or a pinned cell does not exist, a count is not above 0, or two VCs own one pinned cell.
    """
    owners: dict[str, str] = {}
    for name, declared in spec.virtual_clusters.items():
        for identifier in declared.pinned:
            _check_pinned(name, identifier, pinned, owners)
    return {name: _tree(name, declared, chains, pinned) for name, declared in spec.virtual_clusters.items()}


def _check_pinned(vc: str, identifier: str, pinned: Mapping[str, PhysicalCell], owners: dict[str, str]) -> None:
    if identifier not in pinned:
        raise UsageError(f"virtual cluster {vc}: no physical cell is pinned as {identifier}")
    if identifier in owners:
        raise UsageError(f"virtual cluster {vc}: the pinned cell {identifier} belongs to {owners[identifier]} already")
    owners[identifier] = vc


def _tree(
    vc: str, declared: DeclaredVirtualCluster, chains: Mapping[str, CellChain], pinned: Mapping[str, PhysicalCell]
) -> VirtualTree:
    tree, number = VirtualTree(), itertools.count()
    declared_order: dict[str, list[VirtualCell]] = {}
    for owned in declared.cells:
        chain, level = _owned_level(vc, owned, chains)
        levels = tree.preassigned.setdefault(chain.name, [[] for _ in range(chain.top + 1)])
        _count(tree, chain, level, owned.count)
        cells = [_topmost(vc, chain, level, next(number)) for _ in range(owned.count)]
        levels[level] += cells
        declared_order.setdefault(chain.name, []).extend(cells)
    for identifier in declared.pinned:
        cell = pinned[identifier]
        _count(tree, cell.chain, cell.level, 1)
        tree.pinned[identifier] = _topmost(vc, cell.chain, cell.level, next(number))
    tree.views = {name: view_of(cells) for name, cells in declared_order.items()}
    tree.pinned_views = {identifier: view_of([cell]) for identifier, cell in tree.pinned.items()}
    return tree


def _owned_level(vc: str, owned: OwnedCells, chains: Mapping[str, CellChain]) -> tuple[CellChain, int]:
    if owned.chain not in chains:
        raise UsageError(f"virtual cluster {vc}: {owned.path}: no physical cells of the chain {owned.chain}")
    chain = chains[owned.chain]
    levels = [chain.level_of(name) for name in owned.path.split(".")]
    known = [level for level in levels if level is not None]
    if len(known) < len(levels) or known != sorted(known, reverse=True):
        names = " > ".join(level.cell_type for level in reversed(chain.levels))
        raise UsageError(f"virtual cluster {vc}: {owned.path} is no path in the chain {names}")
    if not 0 < owned.count <= MOST_CELLS:
        raise UsageError(f"virtual cluster {vc}: {owned.path}: {owned.count} cells; give a number above 0")
    return chain, known[-1]


def _count(tree: VirtualTree, chain: CellChain, level: int, count: int) -> None:
    tree.owned.setdefault(chain.name, [0] * (chain.top + 1))[level] += count


def _topmost(vc: str, chain: CellChain, level: int, number: int) -> VirtualCell:
    return _grown(VirtualCell(vc, chain, level, f"{vc}/{number}", None), 0)


def _grown(cell: VirtualCell, position: int) -> VirtualCell:
    """Add all cells below a cell; their addresses count the cells of each level of the preassigned cell."""
    children = cell.chain.at(cell.level).children
    for number in range(position * children, (position + 1) * children):
        child = VirtualCell(cell.cluster, cell.chain, cell.level - 1, f"{cell.address}/{number}", cell)
        cell.children.append(_grown(child, number))
    return cell
