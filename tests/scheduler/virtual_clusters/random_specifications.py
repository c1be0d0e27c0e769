"""Random specifications of cells: trees, pinned cells, and what each VC owns."""

from __future__ import annotations

import random
from contextlib import suppress

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.scheduler.virtual_clusters.specification import (
    CellSpecification,
    CellType,
    DeclaredCell,
    DeclaredVirtualCluster,
    OwnedCells,
)


def random_specification(rng: random.Random) -> CellSpecification:
    """Return one or two chains of two to six levels, and one to four VCs that own a part of their cells."""
    while True:
        found = _random_specification(rng)
        with suppress(UsageError):  # pinned cells can leave too few whole cells
            CellState(found)
            return found


def _random_specification(rng: random.Random) -> CellSpecification:
    types: dict[str, CellType] = {}
    roots: list[DeclaredCell] = []
    owned: dict[str, list[OwnedCells]] = {f"vc{number}": [] for number in range(rng.randint(1, 4))}
    pinned: dict[str, list[str]] = {vc: [] for vc in owned}
    leaf = "GPU" if rng.random() < 0.3 else ""
    for name in ("A", "B")[: rng.randint(1, 2)]:
        _random_chain(rng, name, leaf or f"{name}0", types, roots, owned, pinned)
    clusters = {vc: DeclaredVirtualCluster(tuple(owned[vc]), tuple(pinned[vc])) for vc in owned}
    return CellSpecification(types, tuple(roots), clusters)


def _random_chain(
    rng: random.Random,
    name: str,
    leaf: str,
    types: dict[str, CellType],
    roots: list[DeclaredCell],
    owned: dict[str, list[OwnedCells]],
    pinned: dict[str, list[str]],
) -> None:
    children = _random_children(rng)
    node = rng.randint(1, len(children))
    names = [leaf, *(f"{name}{level}" for level in range(1, len(children) + 1))]
    for level, count in enumerate(children, 1):
        types[names[level]] = CellType(names[level - 1], count, level == node)
    count = rng.randint(1, 3)
    pin = rng.randint(node, len(children)) if rng.random() < 0.3 else 0
    roots += [_root(names, children, node, f"{name}{number}", pin * (not number)) for number in range(count)]
    if pin and rng.random() < 0.9:
        pinned[rng.choice(list(owned))].append(f"{name}-pin")
    _own_cells(rng, names, children, count, pin, owned)


def _random_children(rng: random.Random) -> list[int]:
    """Return the numbers of children of each level: up to six levels, and up to 64 GPUs a topmost cell."""
    if rng.random() < 0.15:
        return [2] * rng.randint(4, 5)
    return [rng.choice((2, 2, 3, 4)) for _ in range(rng.randint(1, 4))]


def _own_cells(
    rng: random.Random, names: list[str], children: list[int], count: int, pin: int, owned: dict[str, list[OwnedCells]]
) -> None:
    """Give VCs a random part of the cells of each level that the levels above leave."""
    free, whole = count, rng.random() < 0.5
    for level in range(len(children), -1, -1):
        free = max(0, free - (level == pin > 0))
        taken = free if whole and not level else rng.randint(0, free)
        for _ in range(taken):
            owned[rng.choice(list(owned))].append(OwnedCells(".".join(reversed(names[level:])), 1))
        free = (free - taken) * children[level - 1]


def _root(names: list[str], children: list[int], node: int, address: str, pin: int) -> DeclaredCell:
    """Return a topmost cell; its first cell of level `pin` is pinned."""

    def cells(level: int, own: str, *, first: bool) -> DeclaredCell:
        positions = () if level <= node else range(children[level - 1])
        below = tuple(cells(level - 1, f"{own}.{at}", first=first and not at) for at in positions)
        return DeclaredCell("", own, f"{names[-1][0]}-pin" if first and level == pin else "", below)

    root = cells(len(children), address, first=pin > 0)
    return DeclaredCell(names[-1], address, root.pinned, root.children)
