"""Keeps GPUs free for a starving job that does not fit: on which nodes, and what lower-ranked jobs may still use.

The nodes are those where the job fits the soonest: once runs have reached their minimum run time, and once jobs end that cannot
be preempted. Of the latter only those count that have run for less than `drain_limit`; one that has run longer is taken to run on.
Nothing that the choice depends on gets later as time goes on, and nothing starts on the chosen GPUs. So the job starts when
the last of these runs has reached its minimum run time or has ended.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.protection import is_protected, protected_until
from tiresias.scheduler.model import Bools, Floats, Ints, JobState, Snapshot
from tiresias.scheduler.place.free_capacity import GPUS, ClusterCapacity, Holdings, PlacementRequest
from tiresias.scheduler.place.placer import Placer


@dataclass(frozen=True, slots=True, eq=False)
class Drain:
    """Finds the GPUs that are kept free, for one attempt to make a plan.

    Attributes:
        snapshot: Jobs, nodes and allocations.
        config: `drain_limit` and the minimum run time.
        placer: The placer of the decision.
        holdings: What running jobs hold.
        rank: Place of each job in the order, shape (jobs,).
        keeps: Running jobs that may be preempted and continue to run, shape (jobs,).
    """

    snapshot: Snapshot
    config: PolicyConfig
    placer: Placer
    holdings: Holdings
    rank: Ints
    keeps: Bools

    def could_fit(self, kind: PlacementRequest, gpus: int, whole: Floats) -> bool:
        """Whether runs that are not to be preempted yet and runs that may end soon hold what the job lacks.

        whole: what is free or may become free by preemptions on each node, shape (nodes, columns).
        """
        space = self.placer.space(whole + self.holdings.on_nodes(self._fresh()))
        return self.placer.place(kind, gpus, space) is not None

    def keep_free(self, capacity: ClusterCapacity, row: int, kind: PlacementRequest, whole: float) -> bool:
        """Take from `capacity` what is kept free for the waiting job `row`. False: it would not help the job, nothing is taken.

        whole: GPUs that are free or may become free by preemptions, less those of jobs before it.
        """
        gpus, later = int(self.snapshot.jobs.gpus[row]), capacity.later
        held = self._held(row)
        free = later.amount

        def fits(count: int) -> bool:
            amount = free + self.holdings.on_nodes(held[:count])
            return self.placer.place(kind, gpus, self.placer.space(amount)) is not None

        if whole + self.holdings.gpus()[self._fresh()].sum() < gpus:
            return False
        usable = kind.demand.allowed
        preemptable = self.holdings.on_nodes(np.flatnonzero(self.keeps & (self.rank > self.rank[row])))
        if (free + preemptable)[usable, GPUS].sum() < gpus:
            later.add(_gpus(np.where(usable, -free[:, GPUS], 0.0), free))
        elif not fits(len(held)):
            return False
        else:
            count = bisect_left(range(len(held)), True, key=fits)
            space = self.placer.space(free + self.holdings.on_nodes(held[:count]))
            placement = self.placer.place(kind, gpus, space)
            assert placement is not None, "`fits` holds for this count"
            later.take(kind, placement)
            later.add(np.maximum(-later.amount, 0.0))
        capacity.now.limit(later, list(range(len(free))))
        return True

    def _fresh(self) -> Ints:
        """Runs that are not to be preempted now and may end, or be preempted, soon."""
        return np.flatnonzero(self._fixed() | (is_protected(self.snapshot, self.config) & self.snapshot.jobs.movable))

    def _fixed(self) -> Bools:
        """Runs that cannot be preempted and have not run for long, and jobs that Slurm starts; shape (jobs,)."""
        jobs = self.snapshot.jobs
        has_run = self.snapshot.time - jobs.last_start
        runs = (jobs.state == JobState.RUNNING) & np.logical_not(jobs.movable) & (has_run < self.config.drain_limit)
        fixed: Bools = runs | (jobs.state == JobState.STARTING)
        return fixed

    def _held(self, row: int) -> Ints:
        """Running jobs whose GPUs become available to the job `row`, the soonest first."""
        jobs, now, limit = self.snapshot.jobs, self.snapshot.time, self.config.drain_limit
        lower_ranked = self.rank > self.rank[row]
        preemptable = self.keeps & lower_ranked
        protected = is_protected(self.snapshot, self.config) & jobs.movable & lower_ranked
        ends: Floats = np.where(jobs.state == JobState.STARTING, now, jobs.last_start) + limit
        at = np.where(protected, protected_until(jobs, self.config), np.where(preemptable, now, ends))
        rows = np.flatnonzero(preemptable | protected | self._fixed())
        return rows[np.argsort(at[rows], kind="stable")]


def _gpus(count: Floats, like: Floats) -> Floats:
    """An amount of `count` GPUs on each node and nothing else, with the columns of `like`; shape (nodes, columns)."""
    amount = np.zeros_like(like)
    amount[:, GPUS] = count
    return amount
