"""The choice of GPUs in one node: those with the lowest common ancestor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tiresias.scheduler.virtual_clusters.cell import FREE, Cell, leaves_of
from tiresias.scheduler.virtual_clusters.node_view import NodeView


def chosen_leaves(view: NodeView, rows: Sequence[int], sizes: Sequence[int], priority: int) -> list[list[Cell]]:
    """Choose the leaves of each pod in its node. Free leaves are used before those of lower priorities."""
    available: dict[int, list[Cell]] = {}
    pods = []
    for row, size in zip(rows, sizes, strict=True):
        leaves = available.get(row)
        if leaves is None:
            leaves = _available(view.cells[row], priority)
        pod = closest(leaves, size)
        taken = set(map(id, pod))
        available[row] = [leaf for leaf in leaves if id(leaf) not in taken]
        pods.append(pod)
    return pods


def _available(node: Cell, priority: int) -> list[Cell]:
    leaves = leaves_of(node)
    free = [leaf for leaf in leaves if leaf.priority == FREE]
    return free + [leaf for leaf in leaves if FREE < leaf.priority < priority]


def closest(leaves: list[Cell], size: int) -> list[Cell]:
    """Return the first `size` leaves below the lowest cell that has so many; of several such cells that of the earliest leaf.

    O(leaves x levels). It is the result of a search through all combinations in lexical order for the lowest common ancestor.
    """
    if size in (1, len(leaves)):
        return leaves[:size]
    ancestors = leaves
    while True:
        count = Counter(map(id, ancestors))
        for ancestor in ancestors:
            if count[id(ancestor)] >= size:
                return [leaf for leaf, above in zip(leaves, ancestors, strict=True) if above is ancestor][:size]
        ancestors = [_parent(cell) for cell in ancestors]


def _parent(cell: Cell) -> Cell:
    if cell.parent is None:
        raise ValueError(f"{cell!r} has fewer available leaves than a pod needs")
    return cell.parent
