"""The owners of simulated jobs: what their jobs used, counted at the multiples of `policy.usage_period`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.fairness.decayed_service import decayed_service, last_count
from tiresias.scheduler.fairness.owner_shares import excesses, shares_of
from tiresias.scheduler.model import Floats, Ints, JobState
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.trace import Trace

_TASK = re.compile(r"(\d+)_\d+")  # of an array, as Slurm names it


class ServiceOfGroups:
    """The decayed service of groups of jobs: of those that ended before the last count, and of runs since then.

    Args:
        group: Index of the group of each row of the trace.
        half_life: Seconds after which service counts half.
    """

    def __init__(self, group: Ints, half_life: float) -> None:
        self._group, self._half_life = group, half_life
        self._served = np.zeros(int(group.max(initial=-1)) + 1)
        self._counted = 0.0  # moment of the last count
        self._ended: list[tuple[int, float, float, int]] = []  # group, start, end, GPUs of runs since the last count

    def end(self, row: int, start: float, end: float, gpus: int) -> None:
        """Note that a job has released its GPUs."""
        self._ended.append((int(self._group[row]), start, end, gpus))

    def count(self, now: float, running: Sequence[SimulatedJob]) -> Floats:
        """Return the decayed GPU-seconds of each group, shape (groups,). `running`: the jobs that hold GPUs."""
        held = [(int(self._group[job.row]), job.last_start, now, job.gpus) for job in running]
        self._served *= 0.5 ** ((now - self._counted) / self._half_life)
        self._served += self._sums(self._ended, now)
        self._counted, self._ended = now, []
        return self._served + self._sums(held, now)

    def _sums(self, runs: Sequence[tuple[int, float, float, int]], now: float) -> Floats:
        if not runs:
            return np.zeros(len(self._served))
        group, start, end, gpus = np.array(runs, np.float64).T
        served = decayed_service(start, end, gpus, now, self._half_life)
        return np.bincount(group.astype(np.int64), served, len(self._served)).astype(np.float64)


class SimulatedOwners:
    """The owners of jobs, and what they used at the last count.

    Args:
        trace: The jobs. Accounts are its column account, or vc where it has none.
        config: Whose service counts, and how.
        shares: By owner, in any unit; as of `shares_of`.
    """

    def __init__(self, trace: Trace, config: PolicyConfig, shares: Mapping[str, float]) -> None:
        self._period = config.usage_period
        names, owner = named_owners(trace, config.fairness) if config.fairness != "none" else ((), None)
        group = owners_of(trace, config.attained) if config.attained != "job" else None
        self._shares = shares_of(names, shares)
        self._owners = None if owner is None else ServiceOfGroups(owner, config.usage_half_life)
        self._groups = None if group is None else ServiceOfGroups(group, config.usage_half_life)
        self._owner, self._group = owner, group
        self._next, self._excess, self._served = 0.0, np.zeros(0), np.zeros(0)

    @property
    def changes_service(self) -> bool:
        """Whether a count changes the attained service of jobs."""
        return self._groups is not None

    def is_due(self, now: float) -> bool:
        """Return whether the service is to be counted now."""
        return now >= self._next

    def end(self, job: SimulatedJob, now: float) -> None:
        """Note that a job releases its GPUs now."""
        for each in (self._owners, self._groups):
            if each is not None:
                each.end(job.row, job.last_start, now, job.gpus)

    def count(self, now: float, jobs: Iterable[SimulatedJob]) -> list[SimulatedJob]:
        """Count the service of all owners, give it to all jobs, and return the jobs that may have another rank by it."""
        self._next = last_count(now, self._period) + self._period
        present = list(jobs)
        running = [job for job in present if job.state != JobState.WAITING]
        if self._owner is not None and self._owners is not None:
            served, waits = self._owners.count(now, running), np.zeros(len(self._shares), np.bool_)
            waits[self._owner[[job.row for job in present if job.state == JobState.WAITING]]] = True
            self._excess = excesses(served, self._shares, waits)
        if self._groups is not None:
            self._served = self._groups.count(now, running)
        return [job for job in present if self._give(job, now)]

    def give(self, job: SimulatedJob) -> None:
        """Give a submitted job what its owner used at the last count."""
        self._give(job, job.submit)

    def _give(self, job: SimulatedJob, now: float) -> bool:
        before = job.owner_excess, job.others
        if self._owner is not None:
            job.owner_excess = float(self._excess[self._owner[job.row]]) if len(self._excess) else 0.0
        if self._group is not None and math.isinf(job.reset):  # once promoted, a job counts its own service alone
            job.at(now)
            whole = float(self._served[self._group[job.row]]) if len(self._served) else 0.0
            job.others = max(whole - (job.attained - job.others), 0.0)
        return before != (job.owner_excess, job.others)


def owners_of(trace: Trace, kind: str) -> Ints:
    """Return the index of the owner of each row. kind: "users" or "user", "accounts", or "array"."""
    return named_owners(trace, kind)[1]


def named_owners(trace: Trace, kind: str) -> tuple[tuple[str, ...], Ints]:
    """Return the names of the owners, and the index of the owner of each row. kind: as of `owners_of`."""
    if kind in ("users", "user"):
        names: Sequence[str] = trace.user
    elif kind == "accounts":
        names = trace.account if any(trace.account) else trace.vc
    else:
        names = [task[1] if (task := _TASK.fullmatch(job)) else job for job in trace.job_id]
    found, index = np.unique(np.asarray(names, np.str_), return_inverse=True)
    return tuple(found.tolist()), index.astype(np.int64)
