"""The nodes of a snapshot, as virtual nodes refer to them: by name, and what each job holds there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Request, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED
from tiresias.scheduler.stable_order import stable_order
from tiresias.scheduler.tenants.free_cells import FreeCells
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand
from tiresias.scheduler.tenants.node_conditions import NodeConditions
from tiresias.scheduler.tenants.suitable_nodes import SuitableNodes


class HardwareRows:
    """The nodes of one snapshot.

    Attributes:
        nodes: The nodes.
        suitable: Which of them suit the requests.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        removable: Bools,
        by_condition: NodeConditions,
        free: FreeCells,
        requests: Iterable[Request],
    ) -> None:
        """Start with what the snapshot shows.

        Args:
            snapshot: Jobs, nodes and allocations.
            removable: The jobs without guarantee that release their GPUs or may be preempted, shape (jobs,).
            by_condition: The nodes by conditions.
            free: The free cells.
            requests: The different requests of the jobs.
        """
        self._snapshot, self._removable, self._by_condition = snapshot, removable, by_condition
        self._allocations, self.nodes = snapshot.allocations, snapshot.nodes
        self.suitable = SuitableNodes(snapshot.nodes, by_condition, free, requests)

    @cached_property
    def available(self) -> Floats:
        """GPUs, CPUs and MiB of each node that are free or that removable jobs hold, shape (nodes, 3)."""
        return HardwareDemand(self._snapshot, self._removable, self._by_condition).available()

    @cached_property
    def managed_gpus(self) -> Floats:
        """GPUs of each node that are free or that managed jobs hold, shape (nodes,)."""
        held = np.bincount(self._allocations.node, self._allocations.resources["gpus"], len(self.nodes))
        found: Floats = np.rint(self.nodes.free["gpus"] + held)
        return found

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
