"""Repacking: running jobs that may sit anywhere move aside, so that one that must sit together gets its nodes.

Done only where all of this holds, so that it pays for itself and cannot go round in circles:

  - enough GPUs are free, but not together
  - the job has waited for as long as the moves cost, and is expected to wait for longer than that again
  - every job that moves finds other nodes at once, and has run for ten times what its move costs since it last started

How long it would wait: until enough of the running jobs have ended, each of which is taken to run for as long again as it has
run, as jobs with heavy-tailed run times do; and at most until it gives up waiting for the fewest nodes. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import known
from tiresias.scheduler.evict.victims import VictimSearch
from tiresias.scheduler.model import Bools, Floats, Ints, Jobs, JobState, Snapshot, Style
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.free_capacity import GPUS, Holdings, PlacementRequest
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.placement_requests import PlacementRequests

EARNED = 10.0  # times its cost that a job runs between two moves
LOOKED_AT = 256  # nodes: those with the most room


@dataclass(frozen=True, slots=True)
class Repack:
    """The job's nodes, and where those that move aside for it can go; by rows."""

    placement: Placement
    moves: dict[int, Placement]


def prices(snapshot: Snapshot, may_move: Bools, default_cost: float) -> Floats:
    """Seconds that each job loses when it moves, inf for one that shall not; shape (jobs,)."""
    jobs = snapshot.jobs
    if jobs.style is None:
        return np.full(len(jobs), math.inf)
    cost = (
        np.full(len(jobs), default_cost) if jobs.preemption_cost is None else known(jobs.preemption_cost, default_cost)
    )
    earned = snapshot.time - jobs.last_start >= EARNED * cost
    return np.where(may_move & (jobs.style == Style.SPREAD) & earned, cost, math.inf)


def moments(snapshot: Snapshot, most: int, cost: float) -> float:
    """The next moment at which a waiting job has waited for as long as up to `most` moves cost; inf: never."""
    jobs = snapshot.jobs
    if not most or jobs.style is None:
        return math.inf
    waits = (jobs.state == JobState.WAITING) & (jobs.style != Style.SPREAD)
    since = np.fmax(jobs.submit, jobs.preempted)[waits, None]
    moments = since + cost * np.arange(1, most + 1)
    return float(np.min(moments[moments > snapshot.time], initial=math.inf))


def repacked(
    snapshot: Snapshot, config: PolicyConfig, row: int, may_move: Bools, room: Floats, placer: Placer, holdings: Holdings,
    requests: PlacementRequests,
) -> Repack | None:  # fmt: skip
    """Return nodes for the waiting job `row`, and for the jobs that are preempted to defragment them; None: not worth it.

    Args:
        snapshot: Jobs, nodes and allocations.
        config: `defragment` and `preemption_cost`.
        row: A waiting job for which enough GPUs are free, but not on the nodes that it needs.
        may_move: Running jobs that may be preempted, shape (jobs,).
        room: What is free and not reserved, shape (nodes, columns).
        placer: The placer of the decision.
        holdings: What running jobs hold.
        requests: The placement requests of all jobs.
    """
    jobs = snapshot.jobs
    price = prices(snapshot, may_move, config.preemption_cost)
    waited = snapshot.time - float(np.fmax(jobs.submit[row], jobs.preempted[row]))
    defragmenter = Defragmenter(jobs, placer, holdings, room, price, config.defragment, requests)
    return defragmenter.repack(row, waited, requests.packed_s(row))


@dataclass(frozen=True, slots=True, eq=False)
class Defragmenter:
    """room: what is free and promised to nobody, shape (nodes, columns). price: as `prices` says. most: jobs that move at once.
    requests: of all jobs."""

    jobs: Jobs
    placer: Placer
    holdings: Holdings
    room: Floats
    price: Floats
    most: int
    requests: PlacementRequests

    def repack(self, row: int, waited: float, patience: float) -> Repack | None:
        """None: there is nothing to be had or it is not worth it. waited, patience: seconds that the job has waited, and will
        wait at most. O(jobs + LOOKED_AT x choices of `most` jobs of a node) for each of the job's nodes."""
        kind, gpus = self.requests.of(row), int(self.jobs.gpus[row])
        if self.room[:, GPUS].sum() < gpus or waited < self.price.min(initial=math.inf):
            return None
        movers = self.cheapest(kind, gpus)
        cost = float(self.price[movers].sum())
        if not movers or waited < cost or min(self._expected_wait(kind, gpus), patience) <= cost:
            return None
        return self._settled(kind, gpus, movers)

    def cheapest(self, kind: PlacementRequest, gpus: int) -> list[int]:
        """Rows of the jobs whose nodes are to be cleared, in vain where that is not enough; none: nobody can help.

        Node by node, each where it costs least. That is the least of all for a job on one node, or on whole nodes of which
        no two are held by the same jobs.
        """
        fit, here = kind.demand.candidates(self.room).fit, self._by_node()
        nodes = np.flatnonzero(kind.demand.allowed)
        nodes = nodes[np.argsort(-fit[nodes], kind="stable")[:LOOKED_AT]].tolist()
        gone: list[int] = []
        for need in self._needs(kind, gpus):
            choices = [
                (*found, node) for node in nodes for found in self._clearings(here[node], need - int(fit[node]), gone)
            ]
            if not choices:
                return []
            _, rows, node = min(choices)
            gone += rows
            nodes.remove(node)
        return gone

    def _needs(self, kind: PlacementRequest, gpus: int) -> Iterator[int]:
        """GPUs on each of the fewest nodes, the largest share first."""
        count = self.placer.fewest(kind, gpus)
        most = kind.request.gpus_per_node or self.placer.largest(kind)
        for after in range(count - 1, -1, -1):
            share = min(most, gpus - after)
            gpus -= share
            yield share

    def _clearings(self, on: dict[int, int], short: int, gone: list[int]) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Seconds and rows of the jobs of a node that free so many GPUs of it. on: GPUs of each. gone: who leaves anyway."""
        short -= sum(on.get(row, 0) for row in gone)
        left = [row for row in on if row not in gone]
        for size in range(self.most - len(gone) + 1):
            for rows in combinations(left, size):
                if sum(on[row] for row in rows) >= short:
                    yield float(self.price[list(rows)].sum()), rows

    def _by_node(self) -> defaultdict[int, dict[int, int]]:
        """The GPUs that each job that may move has on each node."""
        found: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for row in np.flatnonzero(self.price < math.inf).tolist():
            held = self.holdings.of(row)
            for node, gpus in zip(self.holdings.node[held].tolist(), self.holdings.amount[held, GPUS], strict=True):
                found[node][row] = int(gpus)
        return found

    def _expected_wait(self, kind: PlacementRequest, gpus: int) -> float:
        """Seconds until enough others have ended."""
        left = np.where(self.jobs.state == JobState.RUNNING, self.jobs.ran, 0.0)
        runs: Ints = np.flatnonzero(self.jobs.state != JobState.WAITING)
        ends = runs[np.argsort(left[runs], kind="stable")]
        found = VictimSearch(self.placer, self.holdings, kind, gpus, self.room).victims(ends)
        return float(left[found[0]].max(initial=0.0)) if found else math.inf

    def _settled(self, kind: PlacementRequest, gpus: int, movers: list[int]) -> Repack | None:
        """The job, then all that moved aside for it, on nodes."""
        space = self.placer.space(self.room + self.holdings.on_nodes(np.array(movers)))
        seats: dict[int, Placement] = {}
        placement = self.placer.place(kind, gpus, space)
        if placement is None:
            return None
        space.take(kind, placement)
        for row in sorted(movers, key=lambda row: -int(self.jobs.gpus[row])):
            other = self.placer.place(self.requests.of(row), int(self.jobs.gpus[row]), space)
            if other is None:
                return None
            space.take(self.requests.of(row), other)
            seats[row] = other
        return Repack(placement, seats)
