"""The managed nodes and what follows from their records alone, kept while no record of a node changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, is_
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats, Nodes
from tiresias.scheduler.resources import Resources
from tiresias.slurm_plugin.backends.interface import SlurmNode
from tiresias.slurm_plugin.cluster import islands, topology
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.allocations import scheduler_nodes


class ManagedNodes(NamedTuple):
    """The nodes of the managed partitions.

    Attributes:
        records: Slurm's records.
        row_of: The row of each node, by name.
        empty: The nodes while nothing on them is taken.
    """

    records: Sequence[SlurmNode]
    row_of: Mapping[str, int]
    empty: Nodes

    def with_taken(self, taken: Floats) -> Nodes:
        """Return the nodes. Where GPUs that jobs still hold are reserved for a beneficiary, less than 0 is free.

        Args:
            taken: GPUs, CPUs and MiB that are allocated or promised on each node, shape (nodes, 3).
        """
        free = np.where(self.empty.usable[:, None], self.empty.free.amount - taken, 0.0)
        return replace(self.empty, free=Resources(free))


class KeptNodes:
    """The nodes of the newest call.

    Args:
        config: Names the managed partitions, and the levels of the topology.
        part_types: GPU types that name the parts of nodes; (): starts select none.
    """

    def __init__(self, config: Config, part_types: Sequence[str]) -> None:
        self._partitions, self._placement = frozenset(config.partitions), config.placement
        self._part_types = part_types
        self._records: tuple[SlurmNode, ...] = ()
        self._seen: tuple[Sequence[object], Sequence[topology.Level]] = ((), ())
        self._made: ManagedNodes | None = None

    def of(self, records: Sequence[SlurmNode], switches: Sequence[topology.Level]) -> ManagedNodes:
        """Return the managed nodes. The names and what is empty are the same objects while only the use of nodes changes. O(nodes).

        Args:
            records: All nodes, as Slurm has them.
            switches: Slurm's topology; () where it has none.
        """
        is_same = (
            self._made is not None and len(records) == len(self._records) and all(map(is_, records, self._records))
        )
        seen = self._seen[0] if is_same else tuple(map(_without_use, records)), tuple(switches)
        if self._made is None or seen != self._seen:
            self._made = self._of(records, switches)
        elif not is_same:
            self._made = self._made._replace(records=self._managed(records))
        self._records, self._seen = tuple(records), seen
        return self._made

    def _managed(self, records: Sequence[SlurmNode]) -> list[SlurmNode]:
        return [node for node in records if not self._partitions.isdisjoint(node.partitions)]

    def _of(self, records: Sequence[SlurmNode], switches: Sequence[topology.Level]) -> ManagedNodes:
        nodes = self._managed(records)
        near = switches or topology.from_features(nodes, self._placement.levels)
        empty = scheduler_nodes(nodes, np.zeros((len(nodes), 3)), topology.groups(nodes, near))
        tree = islands.with_parts(empty.topology, nodes, self._placement.islands, self._part_types)
        rows = {node.name: row for row, node in enumerate(nodes)}
        return ManagedNodes(nodes, rows, replace(empty, topology=tree))


_STATED = attrgetter(
    "name", "gpus", "gpu_type", "cpus", "memory", "features", "partitions", "gpus_by_type", "sharing", "gpu_sockets"
)


def _without_use(node: SlurmNode) -> object:
    """Return what the empty node and its place in the topology follow from."""
    return node.usable, "RESERVED" in node.flags, *_STATED(node)
