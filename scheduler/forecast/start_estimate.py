"""When waiting jobs are estimated to start: from the time limits of the jobs that hold GPUs.

A run is expected to last until its time limit. Waiting jobs start in their rank order: a job starts once enough GPUs are free, and
no job starts before the jobs that are ahead of it. A waiting job also takes the GPUs of preemptable lower-ranked runs. Nodes, CPUs
and memory are not considered, so the result is an estimate and no bound (`start_time_bound.py` has the bounds).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LATEST_S = 30 * 86400.0  # an estimate further ahead is not given


class Holder(NamedTuple):
    """A run that holds GPUs.

    Attributes:
        gpus: that it holds.
        ends: seconds until its time limit; inf: it has none.
        rank: its place in the order of all jobs; -1 for a job that is not managed.
        preemptable: seconds until it may be preempted; inf: never.
    """

    gpus: int
    ends: float
    rank: int = -1
    preemptable: float = math.inf


class Waiter(NamedTuple):
    """A waiting job: its GPUs, its place in the order of all jobs, and its time limit in seconds (inf: none)."""

    gpus: int
    rank: int
    limit: float


def estimated_starts(free: int, holders: Iterable[Holder], waiting: Sequence[Waiter]) -> list[float]:
    """Seconds until each of the jobs of `waiting` starts, in their order; inf where nothing is known.

    Args:
        free: GPUs that no job holds.
        holders: all that hold GPUs on the managed nodes.
        waiting: in rank order. O((holders + waiting) log holders).
    """
    pool = _Pool(free, holders)
    return [pool.start(job) for job in waiting]


class _Pool:
    """The GPUs over time. `_now` never goes back."""

    def __init__(self, free: int, holders: Iterable[Holder]) -> None:
        self._free, self._now = free, 0.0
        runs = list(enumerate(holders))
        self._ends = [(run.ends, key, run.gpus) for key, run in runs if run.ends < math.inf]
        heapq.heapify(self._ends)
        # the lowest-ranked run is preempted first: it is at the end of the list
        self._preemptable = sorted((run.rank, key, run) for key, run in runs if run.preemptable < math.inf)
        self._gone: set[int] = set()  # runs that were preempted or have ended
        self._keys = len(runs)

    def start(self, job: Waiter) -> float:
        while self._free < job.gpus:
            if not (self._preempt(job.rank) or self._wait_for_an_end()):
                self._now = math.inf
            if self._now > LATEST_S:
                break
        if self._now > LATEST_S:
            return math.inf
        self._free -= job.gpus
        if job.limit < math.inf:
            self._keys += 1
            heapq.heappush(self._ends, (self._now + job.limit, self._keys, job.gpus))
        return self._now

    def _preempt(self, rank: int) -> bool:
        while self._preemptable and self._preemptable[-1][0] > rank:
            _, key, run = self._preemptable.pop()
            if key not in self._gone:
                self._release(key, run.preemptable, run.gpus)
                return True
        return False

    def _wait_for_an_end(self) -> bool:
        while self._ends:
            at, key, gpus = heapq.heappop(self._ends)
            if key not in self._gone:
                self._release(key, at, gpus)
                return True
        return False

    def _release(self, key: int, at: float, gpus: int) -> None:
        self._gone.add(key)
        self._now = max(self._now, at)
        self._free += gpus
