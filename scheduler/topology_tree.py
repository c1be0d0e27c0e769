"""The topology of a cluster: one tree of groups of nodes, nodes, parts of nodes and GPUs, in columns.

The levels are named from top to bottom, for instance pod, leaf, node, socket, nvlink, gpu. Above the node a level is a column with
the index of each node's group. Below it a level is a column with the number of equal parts into which it divides the GPUs of each
node, in the order of their indexes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Division = tuple[
    int, ...
]  # the number of parts of one node on each level below it, the finest level that is configured first

Parts = tuple[int, ...]  # GPUs on each of the finest parts of a node; (): not known

LEAF, NODE, GPU = "leaf", "node", "gpu"
MAX_ISLANDS = 8  # of a node: a choice of islands tries each set of them


@lru_cache(maxsize=1000)
def island_count(division: Division) -> int:
    """Return the number of islands that are counted; 1: none are known, or the levels do not fit into each other."""
    rising = sorted(division)
    fits = all(more % less == 0 for less, more in pairwise(rising))
    return rising[-1] if rising and fits and rising[-1] <= MAX_ISLANDS else 1


@dataclass(frozen=True, eq=False)
class Topology:
    """The tree. Its arrays are read-only.

    Attributes:
        gpus: GPUs of each node, shape (nodes,).
        group_names: the levels above the node, top to bottom; the last one is the nearest to the node.
        groups: for each of them the index of each node's group, shape (nodes,).
        part_names: the levels between node and GPU, top to bottom.
        parts: for each of them the number of parts of each node, shape (nodes,); 1 where none are known.
        selectable: whether a start selects the parts of each node (`Start.parts`), shape (nodes,); None: of no node. Otherwise
            Slurm selects the GPUs, and their parts are predicted until Slurm reports them.
        uneven: the GPUs of each of the finest parts of a node, by its row, where these parts differ in size: GPUs of several types.
    """

    gpus: Ints
    group_names: tuple[str, ...]
    groups: tuple[Ints, ...]
    part_names: tuple[str, ...] = ()
    parts: tuple[Ints, ...] = ()
    selectable: Bools | None = None
    uneven: Mapping[int, Parts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.group_names) != len(self.groups) or len(self.part_names) != len(self.parts) or not self.groups:
            raise ValueError("a topology has a name for each level, and one level above the node at least")
        for name in ("gpus", "groups", "parts"):
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(map(_fixed, value)) if name != "gpus" else _fixed(value))

    @classmethod
    def of_groups(cls, gpus: npt.ArrayLike, nearest_first: Sequence[npt.ArrayLike] = ()) -> Topology:
        """Return a tree without parts of nodes.

        Args:
            gpus: GPUs of each node, shape (nodes,).
            nearest_first: the index of each node's leaf switch, then of the group above it, and so on. None: one leaf.
        """
        counted = np.asarray(gpus, np.int64)
        levels = [np.asarray(level, np.int64) for level in nearest_first] or [np.zeros(len(counted), np.int64)]
        names = [LEAF, *(f"group{height}" for height in range(2, len(levels) + 1))]
        return cls(counted, tuple(names[::-1]), tuple(levels[::-1]))

    def with_parts(
        self,
        names: Sequence[str],
        divisions: Sequence[Division],
        selectable: Sequence[bool] | None = None,
        uneven: Mapping[int, Parts] | None = None,
    ) -> Topology:
        """Return the tree with parts of nodes.

        Args:
            names: The levels, the finest one first.
            divisions: For each node the number of its parts on each level, in the same order.
            selectable: Whether a start selects the parts of each node; None: of no node.
            uneven: As the attribute.
        """
        columns = np.array(divisions, np.int64).reshape(len(self), len(names)).T
        chosen = None if selectable is None else np.array(selectable, np.bool_)
        above = (self.gpus, self.group_names, self.groups)
        return Topology(*above, tuple(names[::-1]), tuple(columns[::-1]), chosen, uneven or {})

    def of_nodes(self, rows: Ints) -> Topology:
        """Return the tree of some of the nodes. Groups keep their index."""
        groups, parts = (tuple(level[rows] for level in levels) for levels in (self.groups, self.parts))
        chosen = None if self.selectable is None else self.selectable[rows]
        uneven = (
            {at: self.uneven[row] for at, row in enumerate(rows.tolist()) if row in self.uneven} if self.uneven else {}
        )
        return Topology(self.gpus[rows], self.group_names, groups, self.part_names, parts, chosen, uneven)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.gpus)

    @property
    def names(self) -> tuple[str, ...]:
        """All levels from top to bottom."""
        return (*self.group_names, NODE, *self.part_names, GPU)

    @cached_property
    def nearest_groups(self) -> tuple[Ints, ...]:
        """The index of each node's leaf, then of the group above it, and so on."""
        return self.groups[::-1]

    @cached_property
    def divisions(self) -> tuple[Division, ...]:
        """The division of each node; () where no level below the node is known."""
        return tuple(zip(*(level.tolist() for level in self.parts[::-1]), strict=True))

    def islands(self, node: int) -> int:
        """Return the number of islands of a node; 1: none are known."""
        return island_count(self.divisions[node]) if self.parts else 1

    def part_sizes(self, node: int) -> Parts:
        """Return the GPUs of each of the finest parts of a node."""
        count = self.islands(node)
        return self.uneven.get(node) or (int(self.gpus[node]) // count,) * count

    @cached_property
    def selectable_parts(self) -> Ints:
        """The number of the finest parts of each node that a start selects; 1: the GPUs of the node cannot be distinguished."""
        if self.selectable is None:
            return np.ones(len(self), np.int64)
        parts = np.array([island_count(each) for each in self.divisions], np.int64)
        found: Ints = np.where(self.selectable & (self.gpus % parts == 0), parts, 1)
        return found

    def nodes_of(self, level: str, group: int) -> Ints:
        """Return the rows of the nodes of a group."""
        return np.flatnonzero(self.groups[self.group_names.index(level)] == group)

    def common_level(self, nodes: Sequence[int]) -> str:
        """Return the lowest level of which one group has all these nodes; "" where even the top level has several."""
        rows = np.unique(np.asarray(nodes, np.int64))
        if len(rows) == 1:
            return NODE
        levels = zip(self.group_names[::-1], self.nearest_groups, strict=True)
        return next((name for name, group in levels if len(np.unique(group[rows])) == 1), "")

    def parents(self, level: str) -> Ints:
        """Return the index of the parent, on the level above, of each group, node, part or GPU of a level.

        A group with nodes in several groups of the level above belongs to that of its first node. Parts and GPUs are numbered
        node by node. The topmost level has no parents: all are 0.
        """
        at = self.names.index(level)
        if at == 0:
            return np.zeros(int(self.groups[0].max(initial=-1)) + 1, np.int64)
        if at < len(self.groups):
            groups, first = np.unique(self.groups[at], return_index=True)
            found = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
            found[groups] = self.groups[at - 1][first]
            return found
        if level == NODE:
            return self.groups[-1]
        return _parents_in_nodes(self._count_on_node(at - 1), self._count_on_node(at))

    def _count_on_node(self, at: int) -> Ints:
        """The number of parts or GPUs that each node has on a level, 1 for the node itself. A level of which nothing is known
        divides a node as the level above it does."""
        below = at - len(self.groups) - 1
        one = np.ones(len(self), np.int64)
        if below == len(self.parts):
            return self.gpus
        counted: Ints = functools.reduce(np.maximum, self.parts[: below + 1], one)
        return counted


def _parents_in_nodes(upper: Ints, lower: Ints) -> Ints:
    """Divide the `lower[node]` children of each node equally among its `upper[node]` parents, in order."""
    first = np.cumsum(upper) - upper
    inside = np.arange(int(lower.sum())) - np.repeat(np.cumsum(lower) - lower, lower)
    parent: Ints = first.repeat(lower) + inside * upper.repeat(lower) // lower.repeat(lower)
    return parent


def _fixed(values: Ints) -> Ints:
    fixed: Ints = values.view()
    fixed.flags.writeable = False
    return fixed
