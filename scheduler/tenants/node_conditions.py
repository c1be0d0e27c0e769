"""What requests demand of nodes by features and names, and which nodes meet it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Ints, Nodes, Request


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
    def on_others_too(self) -> Condition:
        """The same without names: Slurm adds other nodes where those that a job names are too few."""
        return self._replace(nodes=frozenset())

    @property
    def is_one_feature(self) -> bool:
        """Whether it demands no more than one feature, which nodes can show."""
        return len(self.features) <= 1 and not self.nodes and not self.excluded


@dataclass(frozen=True, slots=True, eq=False)
class FeatureSets:
    """The features of nodes.

    Attributes:
        different: The different sets of features.
        of_node: Which of them each node has, shape (nodes,).
    """

    different: Sequence[frozenset[str]]
    of_node: Ints

    @classmethod
    def of(cls, features: Sequence[frozenset[str]]) -> FeatureSets:
        """Return them. O(nodes) in Python. `features`: of each node."""
        number = {each: at for at, each in enumerate(dict.fromkeys(features))}
        return cls(tuple(number), np.fromiter(map(number.__getitem__, features), np.int64, len(features)))


class NodeConditions:
    """The nodes of one snapshot, by conditions. O(nodes) for each new condition.

    Attributes:
        row_of: The row of each node by name.
    """

    def __init__(self, nodes: Nodes, row_of: Mapping[str, int], features: FeatureSets | None = None) -> None:
        """`features`: of the nodes, where they are known."""
        self.row_of = row_of
        self._nodes, self._known = nodes, features
        self._meeting: dict[Condition, Bools] = {}

    def meeting(self, condition: Condition) -> Bools:
        """Return the nodes that meet a condition, shape (nodes,)."""
        if condition not in self._meeting:
            self._meeting[condition] = self._found(condition)
        return self._meeting[condition]

    def _found(self, condition: Condition) -> Bools:
        found = np.ones(len(self._nodes), np.bool_)
        if condition.features:
            sets = self._features
            found &= np.array([condition.features <= each for each in sets.different])[sets.of_node]
        if condition.nodes:
            named = np.zeros(len(found), np.bool_)
            named[self._rows(condition.nodes)] = True
            found &= named
        found[self._rows(condition.excluded)] = False
        return found

    @cached_property
    def _features(self) -> FeatureSets:
        return self._known or FeatureSets.of(self._nodes.features)

    def _rows(self, names: Iterable[str]) -> list[int]:
        """Return the rows of the named nodes that are in the snapshot."""
        return [self.row_of[name] for name in names if name in self.row_of]
