"""Defragmentation: running jobs that may run on any nodes are moved, so that a job that needs few nodes gets them.

It is done only where all of this holds, so that it gains more than it costs and does not repeat without end:

  - enough GPUs are free, but not on the nodes that the job needs
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
MAX_NODES = 256  # nodes that are considered: those with the most free capacity


@dataclass(frozen=True, slots=True)
class Repack:
    """The nodes of a job, and of the jobs that are moved for it.

    Attributes:
        placement: The nodes of the job.
        moves: Nodes on which each moved job can run, by row.
    """

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
    snapshot: Snapshot,
    config: PolicyConfig,
    row: int,
    may_move: Bools,
    free: Floats,
    placer: Placer,
    holdings: Holdings,
    requests: PlacementRequests,
) -> Repack | None:
    """Return nodes for the waiting job `row`, and for the jobs that are preempted to defragment them; None: not worth it.

    Args:
        snapshot: Jobs, nodes and allocations.
        config: `defragment` and `preemption_cost`.
        row: A waiting job for which enough GPUs are free, but not on the nodes that it needs.
        may_move: Running jobs that may be preempted, shape (jobs,).
        free: What is free and not reserved, shape (nodes, columns).
        placer: The placer of the decision.
        holdings: What running jobs hold.
        requests: The placement requests of all jobs.
    """
    jobs = snapshot.jobs
    price = prices(snapshot, may_move, config.preemption_cost)
    waited = snapshot.time - float(np.fmax(jobs.submit[row], jobs.preempted[row]))
    defragmenter = Defragmenter(jobs, placer, holdings, free, price, config.defragment, requests)
    return defragmenter.repack(row, waited, requests.packed_s(row))


@dataclass(frozen=True, slots=True, eq=False)
class Defragmenter:
    """Searches the cheapest jobs to move, in one snapshot.

    Attributes:
        jobs: The jobs of the snapshot.
        placer: The placer of the decision.
        holdings: What running jobs hold.
        free: What is free and not reserved, shape (nodes, columns).
        price: Seconds that each job loses when it moves (`prices`), shape (jobs,).
        most: The number of jobs that move at once, at most.
        requests: The placement requests of all jobs.
    """

    jobs: Jobs
    placer: Placer
    holdings: Holdings
    free: Floats
    price: Floats
    most: int
    requests: PlacementRequests

    def repack(self, row: int, waited: float, wait_limit: float) -> Repack | None:
        """Return nodes for the job `row` and for the jobs that move; None: no moves help it, or they are not worth it.

        O(jobs + MAX_NODES x choices of `most` jobs of a node) for each of the job's nodes.

        Args:
            row: A waiting job.
            waited: Seconds that it has waited.
            wait_limit: Seconds that it still waits for the fewest nodes.
        """
        kind, gpus = self.requests.of(row), int(self.jobs.gpus[row])
        if self.free[:, GPUS].sum() < gpus or waited < self.price.min(initial=math.inf):
            return None
        movers = self.cheapest(kind, gpus)
        cost = float(self.price[movers].sum())
        if not movers or waited < cost or min(self._expected_wait(kind, gpus), wait_limit) <= cost:
            return None
        return self._settled(kind, gpus, movers)

    def cheapest(self, kind: PlacementRequest, gpus: int) -> list[int]:
        """Return rows of the jobs to move, which may not be enough; none: no jobs can be moved for it.

        The nodes are chosen one by one, each time the one that costs least. For a job on one node, or on whole nodes of which no
        two are held by the same jobs, this is the lowest cost of all.
        """
        fit, here = kind.demand.candidates(self.free).fit, self._by_node()
        nodes = np.flatnonzero(kind.demand.allowed)
        nodes = nodes[np.argsort(-fit[nodes], kind="stable")[:MAX_NODES]].tolist()
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
        """Yield the cost and the rows of jobs on a node that free `short` GPUs. on: GPUs of each. gone: jobs that move anyway."""
        short -= sum(on.get(row, 0) for row in gone)
        left = [row for row in on if row not in gone]
        for size in range(self.most - len(gone) + 1):
            for rows in combinations(left, size):
                if sum(on[row] for row in rows) >= short:
                    yield float(self.price[list(rows)].sum()), rows

    def _by_node(self) -> defaultdict[int, dict[int, int]]:
        """Return the GPUs of each movable job on each node."""
        found: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for row in np.flatnonzero(self.price < math.inf).tolist():
            held = self.holdings.of(row)
            for node, gpus in zip(self.holdings.node[held].tolist(), self.holdings.amount[held, GPUS], strict=True):
                found[node][row] = int(gpus)
        return found

    def _expected_wait(self, kind: PlacementRequest, gpus: int) -> float:
        """Return the seconds until enough other jobs have ended."""
        left = np.where(self.jobs.state == JobState.RUNNING, self.jobs.ran, 0.0)
        runs: Ints = np.flatnonzero(self.jobs.state != JobState.WAITING)
        ends = runs[np.argsort(left[runs], kind="stable")]
        found = VictimSearch(self.placer, self.holdings, kind, gpus, self.free).victims(ends)
        return float(left[found[0]].max(initial=0.0)) if found else math.inf

    def _settled(self, kind: PlacementRequest, gpus: int, movers: list[int]) -> Repack | None:
        """Place the job, then all moved jobs. None: one of them does not fit."""
        space = self.placer.space(self.free + self.holdings.on_nodes(np.array(movers)))
        moves: dict[int, Placement] = {}
        placement = self.placer.place(kind, gpus, space)
        if placement is None:
            return None
        space.take(kind, placement)
        for row in sorted(movers, key=lambda row: -int(self.jobs.gpus[row])):
            other = self.placer.place(self.requests.of(row), int(self.jobs.gpus[row]), space)
            if other is None:
                return None
            space.take(self.requests.of(row), other)
            moves[row] = other
        return Repack(placement, moves)
