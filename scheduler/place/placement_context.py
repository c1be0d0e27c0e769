"""What a style of placement may use besides the GPUs that are free: the jobs beside which a job would run, and free resources.

All of it is computed when a style reads it, so that it costs other styles nothing. Pure.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiresias.scheduler.interference_table import UNKNOWN_KIND
from tiresias.scheduler.model import Floats, Ints, JobState, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED, FreeCapacity, PlacementRequest

KEEPS = (JobState.RUNNING, JobState.STARTING)  # these jobs keep their GPUs


class NodeInterference(NamedTuple):
    """What is expected on each node if the job is placed there; a slowdown of 2% is 0.02. Both of shape (nodes,).

    Attributes:
        own: Slowdown of the job beside the jobs that hold GPUs there: the sum over these.
        others: Slowdowns of these jobs by the job, summed.
    """

    own: Floats
    others: Floats

    @property
    def total(self) -> Floats:
        """The sum of both, shape (nodes,)."""
        return self.own + self.others


class Surroundings:
    """The jobs and resources of one snapshot, for all placements of a decision.

    Args:
        snapshot: Jobs that run or start count as neighbours, those that release their GPUs do not.

    Attributes:
        snapshot: As above.
        by_space: What a style keeps of each free capacity from which it places jobs.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self._of_kind = snapshot, dict[int, NodeInterference]()
        self.by_space: dict[FreeCapacity, Any] = {}
        # With the jobs that took something of a space; and how many of these it contains.
        self._in_space: dict[tuple[FreeCapacity, int], tuple[NodeInterference, int]] = {}

    def interference(self, kind: int, space: FreeCapacity) -> NodeInterference:
        """Return what is expected of a job on each node. O(jobs that were placed in `space` since the last call for the kind), and
        once for each kind O(allocations + nodes). Not to be changed.

        Args:
            kind: Kind of the job, a row of the table.
            space: The free resources from which it is placed; jobs that took something of them count, too.
        """
        table = self.snapshot.interference
        if table is None or kind == UNKNOWN_KIND:
            return NodeInterference(*np.zeros((2, len(self.snapshot.nodes))))
        if kind not in self._of_kind:
            self._of_kind[kind] = self._expected(table.excess, kind)
        before = self._of_kind[kind]
        if not space.started:
            return before
        found, count = self._in_space.get((space, kind)) or (NodeInterference(*(each.copy() for each in before)), 0)
        for node, other in space.started[count:]:
            found.own[node] += table.slowdown[kind, other] - 1.0
            found.others[node] += table.slowdown[other, kind] - 1.0
        self._in_space[space, kind] = found, len(space.started)
        return NodeInterference(found.own.copy(), found.others.copy())  # later jobs change the kept one

    def neighbours(self, node: int) -> tuple[int, ...]:
        """Return the kinds of the jobs that hold GPUs of a node, in ascending order; (): no interference is known."""
        return self._kinds_by_node.get(node, ())

    @cached_property
    def _kinds_by_node(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        if self.snapshot.interference is not None:
            for node, kind in sorted(zip(*(each.tolist() for each in self._neighbours), strict=True)):
                found[node] = (*found.get(node, ()), kind)
        return found

    def _expected(self, excess: Floats, kind: int) -> NodeInterference:
        """Return the sums over the jobs that hold GPUs. excess: of the table."""
        nodes, (node, other) = len(self.snapshot.nodes), self._neighbours
        own, others = (np.bincount(node, each, nodes) for each in (excess[kind, other], excess[other, kind]))
        return NodeInterference(own.astype(np.float64), others.astype(np.float64))

    @cached_property
    def _neighbours(self) -> tuple[Ints, Ints]:
        """Node and kind of each job that has a kind, for each node on which it holds GPUs."""
        jobs, held = self.snapshot.jobs, self.snapshot.allocations
        kinds = jobs.interference_kind
        if kinds is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        stays = np.isin(jobs.state, KEEPS) & (kinds != UNKNOWN_KIND)
        stays_here = stays[held.job] & (held.resources["gpus"] > 0.0)
        return held.node[stays_here], kinds[held.job[stays_here]]

    @cached_property
    def capacity(self) -> Floats:
        """The most GPUs, CPUs and MiB of a node that are free or held by jobs of the snapshot, shape (3,)."""
        nodes, held = self.snapshot.nodes, self.snapshot.allocations
        amount = nodes.free.amount[:, :COUNTED].copy()
        np.add.at(amount, held.node, held.resources.amount[:, :COUNTED])
        return np.asarray(amount.max(axis=0, initial=0.0), np.float64)


class PlacementContext:
    """What is known for one placement.

    Args:
        kind: The request that is placed.
        space: The free resources from which it is placed.
        surroundings: Of the decision.

    Attributes:
        kind: As above.
        space: As above.
        surroundings: As above.
    """

    def __init__(self, kind: PlacementRequest, space: FreeCapacity, surroundings: Surroundings) -> None:
        self.kind, self.space, self.surroundings = kind, space, surroundings

    @property
    def interference(self) -> NodeInterference:
        """What is expected on each node; nothing where no table of interference is known."""
        return self.surroundings.interference(self.kind.job_kind, self.space)

    @property
    def slowness(self) -> Floats | None:
        """As of `Nodes`."""
        return self.surroundings.snapshot.nodes.slowness

    @property
    def free(self) -> Floats:
        """GPUs, CPUs and MiB that each node has free, shape (nodes, 3). Not to be changed."""
        return self.space.amount[:, :COUNTED]

    @property
    def capacity(self) -> Floats:
        """GPUs, CPUs and MiB of the largest node, as far as jobs of the snapshot or none hold them, shape (3,)."""
        return self.surroundings.capacity
