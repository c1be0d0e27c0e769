"""How many nodes have each feature, for the virtual nodes that are bound to none of them yet.

Features that one job requests together count as one more, their combination: the number of nodes that have all of them does not
follow from how many have each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools
from tiresias.scheduler.tenants.free_cells import CellLevel, FreeCells


def combination(features: Set[str]) -> frozenset[str]:
    """Return what a request for some features demands of a virtual node: one feature that stands for all of them."""
    return frozenset({"&".join(sorted(features))}) if features else frozenset()


def with_combinations(nodes: Sequence[frozenset[str]], requested: Iterable[Set[str]]) -> tuple[frozenset[str], ...]:
    """Return the features of each node, and the combinations that it has. `requested`: the features that jobs request together."""
    several = {frozenset(each): combination(each) for each in requested if len(each) > 1}
    known = {own: own.union(*(name for each, name in several.items() if each <= own)) for own in set(nodes)}
    return tuple([known[own] for own in nodes])


def counted_features(nodes: Iterable[frozenset[str]]) -> Mapping[str, int]:
    """Return on how many nodes each feature is. `nodes`: the features of each node; few of them differ."""
    found = Counter[str]()
    for features, count in Counter(nodes).items():
        found.update(dict.fromkeys(features, count))
    return found


class _Counts(NamedTuple):
    """How many nodes have a feature: in each free cell of a level, the highest number first, and in all of them."""

    of_cells: list[int]
    total: int


class FreeFeatures:
    """How many nodes have each feature, of the usable ones in free cells.

    Args:
        cells: The free cells.
        usable: Whether a virtual node may be bound to a node, shape (nodes,).
        features: The features of each node.
        names: Those that count.
    """

    def __init__(
        self, cells: FreeCells, usable: Bools, features: Sequence[frozenset[str]], names: frozenset[str]
    ) -> None:
        self._cells, self._usable, self._features, self._names = cells, usable, features, names
        self._counts: dict[CellLevel, Mapping[str, _Counts]] = {}

    @cached_property
    def _nodes(self) -> Mapping[str, Bools]:
        """The usable nodes with each feature, shape (nodes,)."""
        number = {each: at for at, each in enumerate(dict.fromkeys(self._features))}
        of_node = np.fromiter(map(number.__getitem__, self._features), np.int64, len(self._features))
        has = {name: np.array([name in each for each in number]) for name in sorted(self._names)}
        return {name: self._usable & each[of_node] for name, each in has.items()}

    def _of_level(self, level: CellLevel) -> Mapping[str, _Counts]:
        if level not in self._counts:
            counts = {name: self._cells.counts(level, nodes) for name, nodes in self._nodes.items()}
            self._counts[level] = {name: _Counts(each, sum(each)) for name, each in counts.items()}
        return self._counts[level]

    def shares(self, levels: Sequence[CellLevel]) -> Iterator[Mapping[str, int]]:
        """Yield for each of some unbound virtual cells how many of its nodes have each feature at most.

        The first cells of a level are bound to the free cells that have most such nodes. No node counts for two virtual cells.

        Args:
            levels: Those of the cells, the highest ones first.
        """
        bound, taken = Counter[CellLevel](), Counter[tuple[str, str]]()
        for level in levels:
            share = dict[str, int]()
            for name, (of_cells, total) in self._of_level(level).items():
                most = of_cells[bound[level]] if bound[level] < len(of_cells) else 0
                share[name] = max(min(most, total - taken[level[0], name]), 0)
                taken[level[0], name] += share[name]
            bound[level] += 1
            yield share

    def differ_for(self, other: FreeFeatures, unbound: Mapping[CellLevel, int], nodes: int) -> bool:
        """Return whether the shares of a virtual cluster may be other ones.

        Args:
            other: The features at another moment.
            unbound: The number of unbound virtual cells of each level.
            nodes: The number of virtual nodes in them.
        """
        pairs = ((self._of_level(level), other._of_level(level), cells) for level, cells in unbound.items())
        return any(_differ(one, two, cells, nodes) for one, two, cells in pairs if one != two)


def _differ(one: Mapping[str, _Counts], other: Mapping[str, _Counts], cells: int, nodes: int) -> bool:
    """Return whether so many first cells differ, or so many nodes."""
    if one.keys() != other.keys():
        return True
    of_names = [(one[name], other[name]) for name in one]
    return any(
        a.of_cells[:cells] != b.of_cells[:cells] or min(a.total, nodes) != min(b.total, nodes) for a, b in of_names
    )
