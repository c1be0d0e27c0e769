"""Which nodes suit what jobs request, and how many of them are free for virtual nodes that are not bound yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tiresias.scheduler.model import Bools, Nodes, Request
from tiresias.scheduler.tenants.free_cells import CellLevel, FreeCells
from tiresias.scheduler.tenants.node_conditions import Condition, NodeConditions


class Counts(NamedTuple):
    """How many nodes meet a condition: in each free cell of a level, the highest number first, and in all of them."""

    of_cells: list[int]
    total: int

    def differ_for(self, other: Counts, cells: int, nodes: int) -> bool:
        """Return whether so many unbound virtual cells, with so many nodes, may have other shares by other counts."""
        return self.of_cells[:cells] != other.of_cells[:cells] or min(self.total, nodes) != min(other.total, nodes)


CountPair = tuple[Counts, Counts]


class SuitableNodes:
    """The nodes of one snapshot, by conditions.

    Args:
        nodes: The nodes.
        by_condition: The same, by conditions.
        cells: The free cells.
        requests: The different requests of the jobs.

    Attributes:
        conditions: Those of the requests that demand something.
        features: The features that are the whole condition of a request.
    """

    def __init__(
        self, nodes: Nodes, by_condition: NodeConditions, cells: FreeCells, requests: Iterable[Request]
    ) -> None:
        self._nodes, self._cells, self._by_condition = nodes, cells, by_condition
        every = [each for one in map(Condition.of, requests) for each in (one, one.on_others_too)]
        self.conditions = tuple(dict.fromkeys(each for each in every if any(each)))
        self.features = sorted({name for each in self.conditions if each.is_one_feature for name in each.features})
        self._counts: dict[tuple[CellLevel, Condition], Counts] = {}

    def suiting(self, condition: Condition) -> Bools:
        """Return the nodes that meet a condition, shape (nodes,)."""
        return self._by_condition.meeting(condition)

    def _of_level(self, level: CellLevel, condition: Condition) -> Counts:
        key = level, condition
        if key not in self._counts:
            of_cells = self._cells.counts(level, self._nodes.usable & self.suiting(condition))
            self._counts[key] = Counts(of_cells, sum(of_cells))
        return self._counts[key]

    def shares(self, condition: Condition, levels: Sequence[CellLevel]) -> Iterator[int]:
        """Yield for each of some unbound virtual cells how many of its nodes can suit.

        The first cells of a level are bound to the free cells with most suitable nodes. No node counts for two virtual cells.

        Args:
            condition: The condition.
            levels: Those of the cells, the highest ones first.
        """
        bound, taken = Counter[CellLevel](), Counter[str]()
        for level in levels:
            (of_cells, total), (chain, _) = self._of_level(level, condition), level
            most = of_cells[bound[level]] if bound[level] < len(of_cells) else 0
            share = max(min(most, total - taken[chain]), 0)
            taken[chain] += share
            bound[level] += 1
            yield share

    def other_counts(
        self, before: SuitableNodes, levels: Iterable[CellLevel]
    ) -> Mapping[CellLevel, Sequence[CountPair]]:
        """Return for some levels the counts now and at another moment, of the conditions of now for which they differ."""
        found = dict[CellLevel, Sequence[CountPair]]()
        for level in levels:
            pairs = [(self._of_level(level, each), before._of_level(level, each)) for each in self.conditions]
            found[level] = [(one, two) for one, two in pairs if one != two]
        return found
