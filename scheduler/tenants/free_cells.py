"""The free cells to which virtual ones can be bound, by the nodes in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.tenants.cell_rows import CellRows
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL, CellChain
from tiresias.scheduler.virtual_clusters.chain_state import ChainState

CellLevel = tuple[str, int]  # name of a chain, and a level


@dataclass(frozen=True, slots=True, eq=False)
class _OfChain:
    """The free cells of one chain.

    Attributes:
        chain: The chain.
        node: The row of each of its nodes, shape (nodes,).
        largest: The level of the free cell in which each node lies; 0: it lies in none, shape (nodes,).
        parts: The positions in `node` of the free cells of each level below the nodes; index 0 is unused.
    """

    chain: CellChain
    node: Ints
    largest: Ints
    parts: Sequence[Ints]


class FreeCells:
    """The free cells of all chains at one moment. Later changes of the cells do not concern it.

    O(nodes x levels) in numpy.
    """

    def __init__(self, chains: Iterable[ChainState], rows: CellRows) -> None:
        self._chains = {state.chain.name: _of_chain(state, rows) for state in chains}

    def counts(self, level: CellLevel, nodes: Bools) -> list[int]:
        """Return how many of some nodes are in each free cell of a level, without the cells with none, the highest number first.

        A cell below the nodes counts for one.

        Args:
            level: The level.
            nodes: The nodes that count, shape (nodes of the snapshot,).
        """
        of, (_, number) = self._chains[level[0]], level
        counts, size = nodes[of.node], of.chain.at(of.chain.node_level).leaves
        whole = counts & (of.largest >= max(number, of.chain.node_level))
        if number < of.chain.node_level:
            parts = int(whole.sum()) * (size // of.chain.at(number).leaves)
            for lower in range(number, of.chain.node_level):
                inside = of.chain.at(lower).leaves // of.chain.at(number).leaves
                parts += int(counts[of.parts[lower]].sum()) * inside
            return [1] * parts
        found = whole.reshape(-1, of.chain.at(number).leaves // size).sum(axis=1)
        return sorted(found[found > 0].tolist(), reverse=True)


def _of_chain(state: ChainState, rows: CellRows) -> _OfChain:
    chain, node_level = state.chain, state.chain.node_level
    node, size = rows.of_level(chain.name, node_level), chain.at(node_level).leaves
    largest = np.zeros(len(node), np.int64)
    for level in range(node_level, chain.top + 1):
        largest.reshape(-1, chain.at(level).leaves // size)[state.free[level].numbers()] = level
    parts = [np.empty(0, np.int64)]
    for level in range(LEAF_LEVEL, node_level):
        parts.append(state.free[level].numbers().astype(np.int64) // (size // chain.at(level).leaves))
    return _OfChain(chain, node, largest, parts)
