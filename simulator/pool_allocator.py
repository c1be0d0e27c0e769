"""The cluster as one pool of GPUs, with the jobs in the policy's order from one decision to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from tiresias.scheduler.job_queue import Choice, Columns, JobQueue, Key
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.rank.policy import Policy
from tiresias.simulator.simulated_job import JobColumns, SimulatedJob
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.snapshots import pool_snapshot


class PoolAllocator:
    """jobs: those that are there, by row; the engine keeps them. gpus: of every row of the trace."""

    relaxes = math.inf  # when a waiting job takes what it did not take before: here any GPU is as good as another

    def __init__(self, rules: Rules, capacity: int, gpus: Sequence[int], jobs: Mapping[int, SimulatedJob]) -> None:
        self._config, self._gpus, self._jobs = rules.config, gpus, jobs
        self.free, self._capacity = capacity, capacity
        self._leaving = 0
        self.follow(rules.policy)

    def follow(self, policy: Policy) -> None:
        """From now on this policy rules, and every job that waits or runs has to be updated."""
        self._policy = policy
        self._line = JobQueue(self._gpus, policy.blocks)
        self._drifting = JobColumns()  # running jobs whose keys change all the time
        self._unsettled: list[SimulatedJob] = []
        # Updated since the last choice. Mostly there is room for all who come: then nobody needs a key.
        self._came: dict[int, SimulatedJob] = {}
        self._moved: dict[int, SimulatedJob] = {}

    def update(self, job: SimulatedJob) -> None:
        """It waits or runs, and may have another key than before."""
        if job.state == JobState.WAITING:
            self._came[job.row] = job
        elif self._policy.preempts and job.now >= job.movable_from:
            self._stop(job)
            self._moved[job.row] = job

    def preempt(self, job: SimulatedJob) -> None:
        self._stop(job)
        self._leaving += job.gpus

    def release(self, job: SimulatedJob) -> None:
        """It finishes or has left its GPUs."""
        self.free += job.gpus
        if job.state == JobState.RELEASING:
            self._leaving -= job.gpus
        else:
            self._stop(job)

    def _stop(self, job: SimulatedJob) -> None:
        known = self._moved.pop(job.row, None) or self._line.leave(job.row)
        if not known and self._drifting:
            self._drifting.remove(job.row)

    def choose(self, now: float) -> Choice:
        came, self._came = self._came, {}
        if not self._line.waits and sum(job.gpus for job in came.values()) <= self.free:
            return Choice(list(came), [])
        for job in came.values():
            self._line.wait(job.row, self._key(job))
        self._line_up(now)
        self._line.drift(len(self._drifting), partial(self._keys, now))
        worth = partial(self._worth, now) if self._policy.spares else None
        drains = partial(self._drains, now) if self._config.starving_first else None
        return self._line.choose(self.free + self._leaving, worth, drains)

    def _line_up(self, now: float) -> None:
        """Every running job that may be preempted takes its place."""
        unsettled, self._unsettled = self._unsettled, []
        for job in unsettled:
            if job.state == JobState.RUNNING and job.row in self._jobs:
                job.at(now)
                self.update(job)
        moved, self._moved = self._moved, {}
        for job in moved.values():
            self._compete(job, now)

    def _compete(self, job: SimulatedJob, now: float) -> None:
        if self._policy.drifts(job, self._config):
            self._drifting.add(job)
            return
        key = self._key(job)
        if not self._policy.settled(key[:-1], self._config):
            if job.now < now:
                job.at(now)
                key = self._key(job)
            else:
                self._unsettled.append(job)
        self._line.compete(job.row, key)

    def _worth(self, now: float, row: int) -> float:
        waits = self._jobs[row]
        waits.at(now)
        return float(self._policy.worth(waits, now, self._config))

    def _drains(self, now: float, row: int) -> int | None:
        """As `drain.Drain`: GPUs of the jobs that may not be preempted and have not run for long."""
        waits = self._jobs[row]
        waits.at(now)
        if not self._policy.drains(waits, now, self._config):
            return None
        freed: int = sum(
            job.gpus
            for job in self._jobs.values()
            if job.state == JobState.RUNNING
            and now < job.movable_from
            and now - job.last_start < self._config.drain_limit
        )
        return freed

    def slowdown(self, job: SimulatedJob) -> float:
        return 1.0

    def admit(self, choice: Choice) -> list[SimulatedJob]:
        """Those of the chosen who can start now. The others wait for GPUs that are being left; nobody behind takes what they
        need, as in `scheduler.room`."""
        if not choice.starts:
            return []
        now, later = self.free, self.free + self._leaving
        starts = []
        for job in map(self._jobs.__getitem__, choice.starts):
            later -= job.gpus
            if job.gpus <= now:
                now -= job.gpus
                starts.append(job)
            else:
                now = min(now, later)
                self.update(job)
        self.free = self.free - sum(job.gpus for job in starts)
        return starts

    def snapshot(self, now: float) -> Snapshot:
        """Return the jobs and the pool at `now`; the pool is shown as one node."""
        return pool_snapshot(list(self._jobs.values()), now, self._capacity, self.free)

    def _key(self, job: SimulatedJob) -> Key:
        return (*self._policy.keys(job, job.now, self._config, False), job.row)

    def _keys(self, now: float) -> Columns:
        running = self._drifting
        running.now = now
        keys = (*self._policy.keys(running, now, self._config, False), running.row)
        return [key if isinstance(key, np.ndarray) else np.full(len(running), key) for key in keys]
