"""The two graphs of a cluster: servers and switches inside each partition, and partitions with the switches above them.

A partition is a group of the topology, by default a leaf switch. A link joins a server or a switch to the switch above it, and has
the index of its lower end: servers, then the switches of each height. Where no switch joins all partitions, one is added.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.learned.edge_convolution import Array, Edges
from tiresias.scheduler.topology_tree import LEAF, Topology

WHOLE = "cluster"  # in place of the name of a level: one partition
TIER_BANDWIDTHS = (10.0, 20.0, 40.0)  # Gb/s of links, from servers up; the last one holds for all above (section VI-A)
_BANDWIDTH_UNIT = 40.0  # Gb/s


@dataclass(frozen=True, eq=False)
class PartitionGraph:
    """The inner graph of one partition.

    Attributes:
        servers: Rows of its nodes, shape (servers,); the first nodes of its graph.
        members: Its nodes in the whole server graph: servers, then switches.
        edges: Between them.
        links: The link of each edge.
    """

    servers: Ints
    members: Ints
    edges: Edges
    links: Ints


class ClusterGraph:
    """The graphs of a topology.

    Attributes:
        level: The level of which each group is a partition.
        bandwidths: Gb/s of the links of each tier, from servers up.
        partition: Index of the partition of each node, shape (nodes,); counted from 0 without gaps.
        inner: Edges of the server graph: servers by their rows, then switches.
        inner_links: The link of each of these edges.
        between: Edges of the partition graph: partitions, then switches.
        between_links: The link of each of these edges.
    """

    def __init__(self, topology: Topology, level: str = LEAF, bandwidths: Sequence[float] = TIER_BANDWIDTHS) -> None:
        """Build the graphs.

        Args:
            topology: The nodes and the switches above them.
            level: The level of which each group is a partition; WHOLE: all nodes are one.
            bandwidths: Gb/s of the links of each tier, from servers up; the last one holds for all tiers above.

        Raises:
            ValueError: The topology has no such level, or no node.
        """
        if not len(topology) or level not in (*topology.group_names, WHOLE):
            raise ValueError(f"the topology has no level {level}; its levels are {', '.join(topology.group_names)}")
        self.level, self.bandwidths = level, tuple(bandwidths)
        self._gpus = topology.gpus
        self._parents, self._ancestor = _tree(topology)
        self._top = len(self._parents)  # the height of the switch that joins all
        self._cut = self._top if level == WHOLE else min(topology.group_names[::-1].index(level) + 1, self._top)
        self._sizes = [len(parent) for parent in self._parents] + [1]
        self._starts = np.cumsum([0, *self._sizes])
        self.partition = self._ancestor[self._cut]
        source, target, self.inner_links = self._edges(0, self._cut)
        self._inner_edges, self.inner = (source, target), Edges(int(self._starts[self._cut + 1]), source, target)
        source, target, self.between_links = self._edges(self._cut, self._top)
        self.between = Edges(int(self._starts[self._top + 1] - self._starts[self._cut]), source, target)
        self.parts = tuple(self._part(group) for group in range(self._sizes[self._cut]))
        self._link_features = self._fixed_features()

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self._link_features)

    @property
    def switches(self) -> int:
        """The number of switches inside partitions."""
        return self.inner.nodes - len(self._gpus)

    @property
    def upper_switches(self) -> int:
        """The number of switches above the partitions."""
        return self.between.nodes - len(self.parts)

    @cached_property
    def padded(self) -> tuple[Ints, Array]:
        """The rows of the nodes of each partition, shape (partitions, largest), and 1 for nodes, 0 where a partition has fewer,
        shape (partitions, largest, 1)."""
        shape = len(self.parts), max(len(part.servers) for part in self.parts)
        rows, present = np.zeros(shape, np.int64), np.zeros((*shape, 1), np.float32)
        for at, part in enumerate(self.parts):
            rows[at, : len(part.servers)], present[at, : len(part.servers)] = part.servers, 1
        return rows, present

    @cached_property
    def leaf(self) -> Ints:
        """The index of the leaf switch of each node, shape (nodes,); all 0 where there is no switch."""
        found: Ints = self._ancestor[min(1, self._top)]
        return found if self._top else np.zeros_like(found)

    @cached_property
    def leaf_servers(self) -> tuple[Ints, Bools]:
        """The rows of the nodes of each leaf switch, shape (leaves, largest), and True for nodes, False where a leaf has fewer."""
        count = np.bincount(self.leaf)
        present: Bools = np.arange(count.max()) < count[:, None]
        rows = np.zeros(present.shape, np.int64)
        rows[present] = np.argsort(self.leaf, kind="stable")
        return rows, present

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what the network depends on: GPUs of the nodes, the tree, its partitions and bandwidths. Names and the order
        of rows do not count."""
        below: list[str] = [str(each) for each in self._gpus.tolist()]
        for parent, size in zip(self._parents, self._sizes[1:], strict=True):
            inside: list[list[str]] = [[] for _ in range(size)]
            for child, above in zip(below, parent.tolist(), strict=True):
                inside[above].append(child)
            below = [_digest(json.dumps(sorted(each))) for each in inside]
        return _digest(json.dumps([below, self._cut, self.bandwidths]))

    def edge_features(self, load: Array) -> Array:
        """Return the features of each link as an edge, in the order of `EDGE_FEATURES`, then 1; shape (links, 4).

        Args:
            load: Load of each link, 0 to 1, shape (links,).
        """
        found: Array = self._link_features.copy()
        found[:, 1] = load
        return found

    def uplink_load(self, links: Array) -> Array:
        """Return the load of the link of each node to its leaf switch, shape (nodes,). links: as `edge_features` returns them."""
        return links[: len(self._gpus), 1] if len(links) else np.zeros(len(self._gpus), np.float32)

    def link_load(self, job: Ints, node: Ints, gpus: Floats) -> Array:
        """Return the load of each link: the share of the GPUs below it that jobs hold which have GPUs beyond it, shape (links,).

        Args:
            job: A number of the job of each allocation, shape (allocations,).
            node: Row of the node of each.
            gpus: GPUs of each.
        """
        if not len(job):
            return np.zeros(len(self._link_features), np.float32)
        _, of = np.unique(job, return_inverse=True)
        whole, loads = np.bincount(of, gpus), []
        for below, size in zip(self._ancestor[: self._top], self._sizes, strict=False):
            pair, index = np.unique(of * size + below[node], return_inverse=True)
            there = np.bincount(index, gpus)
            crossing = np.where(there < whole[pair // size] - 1e-9, there, 0.0)
            loads.append(np.bincount(pair % size, crossing, size) / np.bincount(below, self._gpus, size).clip(1))
        return np.concatenate(loads).astype(np.float32)

    def load_of(self, placements: Sequence[Placement]) -> Array:
        """Return the load of each link by jobs with these placements, shape (links,)."""
        job = np.repeat(np.arange(len(placements)), [len(each) for each in placements])
        node, gpus = np.array([part for each in placements for part in each]).T
        return self.link_load(job, node, gpus.astype(np.float64))

    def _edges(self, low: int, high: int) -> tuple[Ints, Ints, Ints]:
        """Return source, target and link of both directions of the links from height `low` up to `high`."""
        first = self._starts[low]
        child = np.arange(first, self._starts[high])
        above = [parent + self._starts[low + 1 + at] for at, parent in enumerate(self._parents[low:high])]
        parent = np.concatenate([*above, np.zeros(0, np.int64)])
        both = np.concatenate([child, parent]), np.concatenate([parent, child])
        return both[0] - first, both[1] - first, np.concatenate([child, child])

    def _part(self, group: int) -> PartitionGraph:
        inside = [np.array([group])]
        for parent in self._parents[: self._cut][::-1]:
            inside.insert(0, np.flatnonzero(np.isin(parent, inside[0])))
        members = np.concatenate([rows + start for rows, start in zip(inside, self._starts, strict=False)])
        index = np.full(self.inner.nodes, -1)
        index[members] = np.arange(len(members))
        source = self._inner_edges[0]
        rows = np.flatnonzero(index[source] >= 0)
        edges = Edges(len(members), index[source[rows]], index[self._inner_edges[1][rows]])
        return PartitionGraph(inside[0], members, edges, self.inner_links[rows])

    def _fixed_features(self) -> Array:
        tier = np.repeat(np.arange(self._top), self._sizes[: self._top])
        found = np.ones((len(tier), 4), np.float32)
        found[:, 0] = np.array(self.bandwidths)[np.minimum(tier, len(self.bandwidths) - 1)] / _BANDWIDTH_UNIT
        found[:, 2] = tier / self._top
        return found


@lru_cache(maxsize=32)
def _graphs(
    gpus: bytes, names: tuple[str, ...], groups: tuple[bytes, ...], level: str, bandwidths: tuple[float, ...]
) -> ClusterGraph:
    columns = tuple(np.frombuffer(each, np.int64) for each in groups)
    return ClusterGraph(Topology(np.frombuffer(gpus, np.int64), names, columns), level, bandwidths)


def graphs_of(topology: Topology, level: str = LEAF, bandwidths: Sequence[float] = TIER_BANDWIDTHS) -> ClusterGraph:
    """Return the graphs of a topology as `ClusterGraph` has them; for an equal topology they are built once."""
    groups = tuple(each.tobytes() for each in topology.groups)
    return _graphs(topology.gpus.tobytes(), topology.group_names, groups, level, tuple(bandwidths))


def _tree(topology: Topology) -> tuple[list[Ints], list[Ints]]:
    """Return the parent of each server and switch by height, and the ancestor of each node at each height. One switch is on top.

    A switch above that one joins nothing more, and the controller observes none: it is left out.
    """
    ancestor = [np.arange(len(topology))]
    parents: list[Ints] = []
    for level in topology.nearest_groups:
        if parents and not ancestor[-1].any():
            break
        present, first = np.unique(ancestor[-1], return_index=True)
        assert len(present) == present[-1] + 1, "indexes without gaps"
        _, parent = np.unique(level[first], return_inverse=True)
        parents.append(parent)
        ancestor.append(parent[ancestor[-1]])
    if ancestor[-1].max() > 0:
        parents.append(np.zeros(int(ancestor[-1].max()) + 1, np.int64))
        ancestor.append(np.zeros(len(topology), np.int64))
    return parents, ancestor


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
