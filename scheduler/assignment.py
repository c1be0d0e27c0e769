"""Assigns nodes to the selected jobs, in their order, and finds the running jobs to preempt for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tiresias.scheduler.evict.victims import VictimSearch
from tiresias.scheduler.model import Bools, Ints, Jobs
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.free_capacity import COUNTED, ClusterCapacity, Holdings, PlacementRequest
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.placement_requests import PlacementRequests

ROUNDING = 1e-6  # of sums of CPUs and megabytes


@dataclass(slots=True, eq=False)
class Assignment:
    """The nodes of the selected jobs.

    Attributes:
        keeps: Running jobs that keep their GPUs, shape (jobs,).
        starts: Nodes of jobs that start now, by row, in the order of the walk.
        reserved: Nodes of jobs that wait for preempted jobs, by row, in the order of the walk.
    """

    jobs: Jobs
    placer: Placer
    holdings: Holdings
    rank: Ints
    capacity: ClusterCapacity
    keeps: Bools
    requests: PlacementRequests
    free_only: Bools  # jobs for which nothing is reserved, shape (jobs,)
    starts: dict[int, Placement] = field(default_factory=dict)
    reserved: dict[int, Placement] = field(default_factory=dict)
    # Requests that did not fit. They are not tried again: free capacity shrinks, and an additional victim cannot help an identical
    # later request.
    _not_now: set[tuple[PlacementRequest, int]] = field(default_factory=set)
    _not_later: set[tuple[PlacementRequest, int]] = field(default_factory=set)

    def assign(self, row: int) -> bool:
        """Find nodes for a waiting job: free ones, else such as will be free. False: there are none."""
        kind, gpus = self.requests.of(row), int(self.jobs.gpus[row])
        return self._start(row, kind, gpus) or (not self.free_only[row] and self._reserve(row, kind, gpus))

    def assign_free_nodes(self, row: int) -> bool:
        """Find free nodes for a waiting job. False: there are none."""
        return self._start(row, self.requests.of(row), int(self.jobs.gpus[row]))

    def _start(self, row: int, kind: PlacementRequest, gpus: int) -> bool:
        if (kind, gpus) in self._not_now:
            return False
        placement = self.placer.place(kind, gpus, self.capacity.now)
        if placement is None:
            self._not_now.add((kind, gpus))
            return False
        self.starts[row] = placement
        self.capacity.start(kind, placement)
        return True

    def _reserve(self, row: int, kind: PlacementRequest, gpus: int) -> bool:
        if (kind, gpus) in self._not_later:
            return False
        placement = self.placer.place(kind, gpus, self.capacity.later)
        if placement is None and not kind.packed:
            placement = self._over_others(row, kind, gpus)
        if placement is None:
            self._not_later.add((kind, gpus))
            return False
        self.reserved[row] = placement
        self.capacity.reserve(kind, placement)
        return True

    def _over_others(self, row: int, kind: PlacementRequest, gpus: int) -> Placement | None:
        """Nodes that are free only when more running jobs are preempted than the walk by GPUs found; these lose their GPUs."""
        lower_ranked = np.flatnonzero(self.keeps & (self.rank > self.rank[row]))
        lower_ranked = lower_ranked[np.argsort(-self.rank[lower_ranked])]
        found = VictimSearch(self.placer, self.holdings, kind, gpus, self.capacity.later.amount).victims(lower_ranked)
        if found is None:
            return None
        victims, placement = found
        self.keeps[victims] = False
        self.capacity.later.add(self.holdings.on_nodes(np.array(victims)))
        return placement

    def victims(self, unselected: list[int]) -> dict[int, int]:
        """Return the beneficiary of each victim. `unselected`: running jobs without selection, the most urgent first; a job whose
        GPUs no reservation needs keeps them."""
        needs: dict[int, int] = {}  # the most urgent reservation on each node
        for row, placement in self.reserved.items():
            for node, _ in placement:
                needs.setdefault(node, row)
        later, found = self.capacity.later.amount, {}
        for row in unselected:
            held = self.holdings.of(row)
            nodes, amount = self.holdings.node[held], self.holdings.amount[held]
            short = nodes[(later[nodes] < amount - ROUNDING)[:, :COUNTED].any(axis=1)]
            reserving = [needs[node] for node in short.tolist() if node in needs]
            if reserving:
                found[row] = min(reserving, key=lambda other: int(self.rank[other]))
            else:
                later[nodes] -= amount
        return found
