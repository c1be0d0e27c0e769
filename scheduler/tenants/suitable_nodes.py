"""Which nodes suit what jobs request, and how many of them are free for virtual nodes that are not bound yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Ints, Nodes, Request
from tiresias.scheduler.tenants.free_cells import CellLevel, FreeCells


class Condition(NamedTuple):
    """What a request demands of nodes.

    Attributes:
        features: Features of each node.
        nodes: Names of the nodes that it permits; empty: all.
        excluded: Names of those on which it cannot start now.
    """

    features: frozenset[str]
    nodes: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()

    @staticmethod
    def of(request: Request) -> Condition:
        """Return that of a request."""
        return Condition(request.features, request.nodes, request.excluded | request.closed)

    @property
    def is_one_feature(self) -> bool:
        """Whether it demands no more than one feature, which nodes can show."""
        return len(self.features) <= 1 and not self.nodes and not self.excluded


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
        cells: The free cells.
        requests: The different requests of the jobs.

    Attributes:
        conditions: Those of the requests that demand something.
        features: The features that are the whole condition of a request.
    """

    def __init__(self, nodes: Nodes, cells: FreeCells, requests: Iterable[Request]) -> None:
        self._nodes, self._cells = nodes, cells
        self.conditions = tuple(dict.fromkeys(each for each in map(Condition.of, requests) if any(each)))
        self.features = sorted({name for each in self.conditions if each.is_one_feature for name in each.features})
        self._suiting: dict[Condition, Bools] = {}
        self._counts: dict[tuple[CellLevel, Condition], Counts] = {}

    @cached_property
    def _features(self) -> tuple[Sequence[frozenset[str]], Ints]:
        """The different sets of features of the nodes, and which of them each node has."""
        number = {each: at for at, each in enumerate(dict.fromkeys(self._nodes.features))}
        of_node = np.fromiter(map(number.__getitem__, self._nodes.features), np.int64, len(self._nodes))
        return tuple(number), of_node

    def suiting(self, condition: Condition) -> Bools:
        """Return the nodes that meet a condition, shape (nodes,)."""
        if condition not in self._suiting:
            self._suiting[condition] = self._meet(condition)
        return self._suiting[condition]

    def _meet(self, condition: Condition) -> Bools:
        found = np.ones(len(self._nodes), np.bool_)
        if condition.features:
            sets, of_node = self._features
            found &= np.array([condition.features <= each for each in sets])[of_node]
        if condition.nodes:
            named = np.zeros(len(found), np.bool_)
            named[self._rows(condition.nodes)] = True
            found &= named
        found[self._rows(condition.excluded)] = False
        return found

    def _rows(self, names: Iterable[str]) -> list[int]:
        return [row for row in map(self._cells.row_of.get, names) if row is not None]

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
