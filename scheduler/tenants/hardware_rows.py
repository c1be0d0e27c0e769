"""The nodes of a snapshot, as virtual nodes refer to them: by name, and what each job holds there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cached_property
from itertools import compress

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED
from tiresias.scheduler.stable_order import stable_order
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand


class HardwareRows:
    """The nodes of one snapshot.

    Attributes:
        nodes: The nodes.
        pinned: The names of those in pinned cells.
    """

    def __init__(
        self, snapshot: Snapshot, removable: Bools, pinned: Set[str], are_bound: Callable[[Ints], Bools]
    ) -> None:
        """Start with what the snapshot shows.

        Args:
            snapshot: Jobs, nodes and allocations.
            removable: The jobs without guarantee that release their GPUs or may be preempted, shape (jobs,).
            pinned: The nodes in pinned cells, to which no other cells can be bound.
            are_bound: As `CellHolders.are_bound`.
        """
        self._snapshot, self._removable, self.pinned, self._are_bound = snapshot, removable, pinned, are_bound
        self._allocations, self.nodes = snapshot.allocations, snapshot.nodes

    @cached_property
    def available(self) -> Floats:
        """GPUs, CPUs and MiB of each node that are free or that removable jobs hold, shape (nodes, 3)."""
        return HardwareDemand(self._snapshot, self._removable).available()

    @cached_property
    def managed_gpus(self) -> Floats:
        """GPUs of each node that are free or that managed jobs hold, shape (nodes,)."""
        held = np.bincount(self._allocations.node, self._allocations.resources["gpus"], len(self.nodes))
        found: Floats = np.rint(self.nodes.free["gpus"] + held)
        return found

    @cached_property
    def all_features(self) -> frozenset[str]:
        """The features of all nodes together."""
        return frozenset[str]().union(*set(self.nodes.features))

    @cached_property
    def free_features(self) -> Mapping[str, int]:
        """On how many nodes each feature is: of the usable ones outside of pinned cells to which a virtual node can be bound."""
        free = self.nodes.usable & ~self._are_bound(self.nodes.gpus)
        if self.pinned:
            free &= np.fromiter((name not in self.pinned for name in self.nodes.name), np.bool_, len(self.nodes))
        return counted_features(compress(self.nodes.features, free.tolist()))

    def held(self, job: Ints, node: Ints, gpus: Ints) -> Floats:
        """Return the CPUs and MiB that belong to some of the GPUs that jobs hold on nodes; 0 where they hold none there.

        O(allocations), and O(log allocations) for each of those of these jobs.

        Args:
            job: Rows of the jobs, shape (triples,).
            node: Rows of the nodes.
            gpus: How many of the job's GPUs on the node. Where a job holds several parts of a node, each has its share.

        Returns:
            Shape (triples, 2).
        """
        keys, amount = self._held_by(job)
        key = job * len(self.nodes) + node
        at = np.searchsorted(keys, key, side="right") - 1
        is_held = (at >= 0) & (node >= 0)
        is_held[is_held] = keys[at[is_held]] == key[is_held]
        found = np.zeros((len(key), COUNTED - 1))
        every, *others = amount[at[is_held]].T
        found[is_held] = np.stack(others, axis=1) * np.minimum(gpus[is_held] / np.maximum(every, 1.0), 1.0)[:, None]
        return found

    def _held_by(self, jobs: Ints) -> tuple[Ints, Floats]:
        """Job and node of each allocation of some jobs as one number, sorted, and its GPUs, CPUs and MiB."""
        held, chosen = self._allocations, np.zeros(len(self._snapshot.jobs), np.bool_)
        chosen[jobs] = True
        rows = np.flatnonzero(chosen[held.job])
        key = held.job[rows] * len(self.nodes) + held.node[rows]
        order = stable_order(key)
        return key[order], held.resources.amount[rows[order], :COUNTED]


def counted_features(nodes: Iterable[frozenset[str]]) -> Mapping[str, int]:
    """Return on how many nodes each feature is. `nodes`: the features of each node; few of them differ."""
    found = Counter[str]()
    for features, count in Counter(nodes).items():
        found.update(dict.fromkeys(features, count))
    return found
