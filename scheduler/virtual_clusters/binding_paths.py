"""The virtual cells to bind for a virtual placement, as trees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell

Bindings = dict[VirtualCell, PhysicalCell]  # physical leaves by virtual leaf


@dataclass(eq=False, slots=True)
class ToBind:
    """A virtual cell to bind, and those of its children that are to be bound."""

    cell: VirtualCell
    children: list[ToBind] = field(default_factory=list)


@dataclass
class BindingPaths:
    """What is to be bound.

    Attributes:
        preassigned: Preassigned cells, which buddy allocation binds.
        inside: Cells in preassigned cells that are bound already, those of one parent together.
        bindings: Leaves that are bound already.
    """

    preassigned: list[ToBind] = field(default_factory=list)
    inside: list[list[ToBind]] = field(default_factory=list)
    bindings: Bindings = field(default_factory=dict)

    @cached_property
    def hosts(self) -> set[PhysicalCell]:
        """The physical cells in which `inside` is bound."""
        above = (cells[0].cell.parent for cells in self.inside)
        return {cell.physical for cell in above if cell is not None and cell.physical is not None}


def binding_paths(pods: Iterable[Sequence[VirtualCell]]) -> BindingPaths:
    """Collect the unbound cells from the leaves of a placement upward."""
    paths = BindingPaths()
    known: dict[VirtualCell, ToBind] = {}
    by_parent: dict[VirtualCell, list[ToBind]] = {}
    for leaf in (leaf for pod in pods for leaf in pod):
        if leaf.physical is not None:
            paths.bindings[leaf] = leaf.physical
            continue
        for cell in reversed(_unbound_above(leaf, known)):
            known[cell] = ToBind(cell)
            _attach(known[cell], known, by_parent, paths)
    paths.inside = list(by_parent.values())
    return paths


def _unbound_above(leaf: VirtualCell, known: dict[VirtualCell, ToBind]) -> list[VirtualCell]:
    path: list[VirtualCell] = []
    cell: VirtualCell | None = leaf
    while cell is not None and cell.physical is None and cell not in known:
        path.append(cell)
        cell = cell.parent
    return path


def _attach(
    to_bind: ToBind, known: dict[VirtualCell, ToBind], by_parent: dict[VirtualCell, list[ToBind]], paths: BindingPaths
) -> None:
    parent = to_bind.cell.parent
    if parent is None:
        paths.preassigned.append(to_bind)
    elif parent.physical is not None:
        by_parent.setdefault(parent, []).append(to_bind)
    else:
        known[parent].children.append(to_bind)
