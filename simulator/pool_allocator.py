"""A simulated cluster as one pool of GPUs. The jobs stay in the policy's order from one decision to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from functools import partial
from typing import Final

import numpy as np

from tiresias.scheduler.evict.cost_aware import Weighing, weighs_cost
from tiresias.scheduler.job_queue import NOTHING, Choice, JobQueue
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.rank.policy import IncrementalPolicy, Policy, replaces
from tiresias.scheduler.running_keys import Columns, Key
from tiresias.simulator.contention.contention_tracker import ContentionTracker
from tiresias.simulator.contention.server_loads import PartOfServer
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.snapshots import pool_snapshot

_WAITING: Final = int(JobState.WAITING)
_RUNNING: Final = int(JobState.RUNNING)
_RELEASING: Final = int(JobState.RELEASING)


class PoolAllocator:
    """Decides which jobs hold the GPUs of a pool.

    Attributes:
        relaxes: As of `NodeAllocator`; inf, because all GPUs are equal.
        resized, shrunk, samples: As of `NodeAllocator`; none, because no job is elastic.
        sample_end: As of `NodeAllocator`; inf.
        contention: As of `NodeAllocator`; None.
        free: Number of free GPUs.
    """

    relaxes: float = math.inf
    sample_end: float = math.inf
    resized: Sequence[int] = ()
    samples: Sequence[int] = ()
    shrunk: Set[int] = frozenset()
    contention: ContentionTracker | None = None

    def __init__(self, rules: Rules, capacity: int, gpus: list[int], jobs: dict[int, SimulatedJob]) -> None:
        """`gpus`: of each row of the trace. `jobs`: those that wait or run, by row; the event loop updates them."""
        self._config, self._gpus, self._jobs = rules.config, gpus, jobs
        self._starving_first = rules.config.starving_first
        self.free, self._capacity = capacity, capacity
        self._releasing = 0
        self.follow(rules.policy)

    def follow(self, policy: Policy) -> None:
        """Use this policy from now on. The caller then updates every job that waits or runs."""
        assert isinstance(policy, IncrementalPolicy), "see Rules"
        self._policy, self._preempts = policy, policy.preempts
        self._weighs = weighs_cost(self._config.eviction, policy.spares)
        self._drifts, self._settles = replaces(policy, "drifts"), replaces(policy, "settled")
        # Whether the key of a running job is computed as soon as it changes while jobs wait, and not with the next choice.
        drifts_or_settles = self._drifts or self._settles
        self._directly = self._preempts and replaces(policy, "keys_and_change") and not drifts_or_settles
        self._queue = JobQueue(self._gpus, policy.blocks)
        self._drifting = JobColumns()  # running jobs whose keys change all the time
        self._unsettled: list[SimulatedJob] = []
        # Updated since the last decision. Usually all of them fit, and then their keys are not computed.
        self._arrived: dict[int, SimulatedJob] = {}
        self._changed: dict[int, SimulatedJob] = {}

    def update(self, job: SimulatedJob) -> float:
        """Note that a waiting or running job may have a new key now. Returns the next moment at which its key changes by itself."""
        if self._directly and self._queue.waiting and job.state == _RUNNING and self._competes(job):
            keys, moment = self._policy.keys_and_change(job, job.now, self._config)
            self._queue.compete(job.row, keys + (job.row,))  # noqa: RUF005 (see `_key`)
            return moment
        self._note(job)
        return float(self._policy.change(job, job.now, self._config))

    def _note(self, job: SimulatedJob) -> None:
        if job.state == _WAITING:
            self._arrived[job.row] = job
        elif self._preempts and self._competes(job):
            self._stop(job)
            self._changed[job.row] = job

    def _competes(self, job: SimulatedJob) -> bool:
        """Return whether the running job may be preempted, and its change is not noted yet."""
        return job.now >= job.movable_from and not (self._changed and job.row in self._changed)

    def preempt(self, job: SimulatedJob) -> None:
        """Note that a running job begins to release its GPUs."""
        self._stop(job)
        self._releasing += job.gpus

    def release(self, job: SimulatedJob) -> None:
        """Free the GPUs of a job that ends or was preempted."""
        self.free += job.gpus
        if job.state == _RELEASING:
            self._releasing -= job.gpus
        else:
            self._stop(job)

    def _stop(self, job: SimulatedJob) -> None:
        if job.row in self._changed:
            del self._changed[job.row]
        elif not self._queue.leave(job.row) and self._drifts:
            self._drifting.remove(job.row)

    def choose(self, now: float) -> Choice:
        """Return the rows of the jobs to start and to preempt."""
        arrived = self._arrived
        if not self._queue.waiting:
            if not arrived:
                return NOTHING
            if sum([job.gpus for job in arrived.values()]) <= self.free:
                self._arrived = {}
                return Choice(list(arrived), ())
        if arrived:
            self._arrived = {}
            for job in arrived.values():
                self._queue.wait(job.row, self._key(job))
        if self._unsettled or self._changed:
            self._queue_running(now)
        if self._drifts:
            self._queue.drift(len(self._drifting), partial(self._keys, now))
        if self._queue.selects_none(self.free + self._releasing):
            return NOTHING
        weighing = partial(self._weighing, now, len(self._queue.waiting)) if self._weighs else None
        drains = partial(self._drains, now) if self._starving_first else None
        return self._queue.choose(self.free + self._releasing, weighing, drains)

    def _queue_running(self, now: float) -> None:
        """Insert the running jobs that may be preempted into the queue."""
        unsettled, self._unsettled = self._unsettled, []
        for job in unsettled:
            if job.state == _RUNNING and job.row in self._jobs:
                job.at(now)
                self._note(job)
        changed, self._changed = self._changed, {}
        for job in changed.values():
            self._compete(job, now)

    def _compete(self, job: SimulatedJob, now: float) -> None:
        if self._drifts and self._policy.drifts(job, self._config):
            self._drifting.add(job)
            return
        key = self._key(job)
        if self._settles and not self._policy.settled(key[:-1], self._config):
            if job.now < now:
                job.at(now)
                key = self._key(job)
            else:
                self._unsettled.append(job)
        self._queue.compete(job.row, key)

    def _weighing(self, now: float, waiting: int) -> Weighing:
        loss = partial(self._loss, waiting / self._capacity, now)
        return Weighing(partial(self._worth, now), loss, self._policy.release_rate)

    def _worth(self, now: float, row: int) -> float:
        waits = self._jobs[row]
        waits.at(now)
        return float(self._policy.worth(waits, now, self._config))

    def _loss(self, backlog: float, now: float, row: int) -> float:
        runs = self._jobs[row]
        runs.at(now)
        return float(self._policy.loss(runs, backlog, now, self._config))

    def _drains(self, now: float, row: int) -> int | None:
        """Return the GPUs of jobs that may not be preempted and have not run for long; see `evict.drain`."""
        waits = self._jobs[row]
        waits.at(now)
        if not self._policy.drains(waits, now, self._config):
            return None
        freed: int = sum(
            job.gpus
            for job in self._jobs.values()
            if job.state == _RUNNING and now < job.movable_from and now - job.last_start < self._config.drain_limit
        )
        return freed

    def slowdown(self, job: SimulatedJob) -> float:
        """Return 1: a job runs equally fast on all GPUs."""
        return 1.0

    def parts(self, job: SimulatedJob) -> tuple[PartOfServer, ...]:
        """Return what a job has of its nodes: no nodes are known."""
        return ()

    def admit(self, choice: Choice) -> list[SimulatedJob]:
        """Allocate GPUs to the chosen jobs that fit now, and return these jobs.

        The other chosen jobs wait for GPUs that are being released; a lower-ranked job does not take what they need.
        """
        if not choice.starts:
            return []
        now, later = self.free, self.free + self._releasing
        starts = []
        for row in choice.starts:
            job = self._jobs[row]
            later -= job.gpus
            if job.gpus <= now:
                now -= job.gpus
                starts.append(job)
            else:
                now = min(now, later)
                self._note(job)
        self.free -= sum([job.gpus for job in starts])
        return starts

    def snapshot(self, now: float) -> Snapshot:
        """Return the jobs and the pool at `now`; the pool is shown as one node."""
        return pool_snapshot(list(self._jobs.values()), now, self._capacity, self.free)

    def _key(self, job: SimulatedJob) -> Key:
        keys = self._policy.keys(job, job.now, self._config, False)
        return keys + (job.row,)  # noqa: RUF005 (compiled, the other form makes a list first)

    def _keys(self, now: float) -> Columns:
        running = self._drifting
        running.now = now
        keys = (*self._policy.keys(running, now, self._config, False), running.row)
        return [key if isinstance(key, np.ndarray) else np.full(len(running), key) for key in keys]
