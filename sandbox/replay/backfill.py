"""A simulation of Slurm's backfill for a pool of GPUs: a time for each waiting job, in the order of submission (sched/backfill).

Each job is planned at the earliest moment from which its GPUs are free for its time limit, beside the jobs that were submitted
before it; those that are planned now start. Whole nodes and the time that slurmctld takes are not simulated. Pure.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats, Ints


class BatchJob(NamedTuple):
    """A job of the simulation.

    Attributes:
        submit: Moment of its submission.
        gpus: GPUs that it requests.
        duration: Seconds that it runs.
        limit: Its time limit, seconds; at least its duration.
    """

    submit: float
    gpus: int
    duration: float
    limit: float


def ends(jobs: Sequence[BatchJob], gpus: int) -> list[float]:
    """Return the moment at which each job ends on a cluster of `gpus` GPUs. jobs: in the order of their submissions."""
    found = [math.nan] * len(jobs)
    running: list[tuple[float, int, float]] = []  # end, row, latest end
    waiting: list[int] = []
    arrived = 0
    while arrived < len(jobs) or running:
        now = min(running[0][0] if running else math.inf, jobs[arrived].submit if arrived < len(jobs) else math.inf)
        while running and running[0][0] <= now:
            end, row, _ = heapq.heappop(running)
            found[row] = end
        while arrived < len(jobs) and jobs[arrived].submit <= now:
            waiting.append(arrived)
            arrived += 1
        held = [(latest, jobs[row].gpus) for _, row, latest in running]
        for row in _starting([(row, jobs[row]) for row in waiting], held, gpus, now):
            waiting.remove(row)
            heapq.heappush(running, (now + jobs[row].duration, row, now + jobs[row].limit))
    return found


def _starting(
    waiting: Sequence[tuple[int, BatchJob]], held: Sequence[tuple[float, int]], gpus: int, now: float
) -> list[int]:
    """Return the rows of the waiting jobs that are planned now."""
    free = gpus - sum(each for _, each in held)
    able = [place for place, (_, job) in enumerate(waiting) if job.gpus <= free]
    plan, chosen = _Plan(held, gpus, now), []
    for row, job in waiting[: able[-1] + 1] if able else []:  # no job after these can start now
        if plan.add(job.gpus, job.limit) <= now:
            chosen.append(row)
    return chosen


class _Plan:
    """The free GPUs over time, as far as it is planned: `free[i]` from `time[i]` on."""

    def __init__(self, held: Sequence[tuple[float, int]], gpus: int, now: float) -> None:
        releases = sorted(held)
        self.time: Floats = np.array([now, *(end for end, _ in releases)])
        first = gpus - sum(each for _, each in releases)
        self.free: Ints = first + np.cumsum([0, *(each for _, each in releases)])

    def add(self, gpus: int, limit: float) -> float:
        """Reserve GPUs for `limit` seconds from the earliest possible moment; return the moment."""
        begin = self._earliest(gpus, limit)
        start = float(self.time[begin])
        end = self._split(start + limit)
        self.free[begin:end] -= gpus
        return start

    def _earliest(self, gpus: int, limit: float) -> int:
        """Return the index of the first moment from which so many GPUs are free for `limit` seconds."""
        short = np.flatnonzero(self.free < gpus)
        begin = 0
        for place in short.tolist():
            if self.time[place] >= self.time[begin] + limit:
                break
            begin = place + 1
        return begin

    def _split(self, moment: float) -> int:
        """Return the index of a moment, inserted where it is missing."""
        place = int(np.searchsorted(self.time, moment))
        if place == len(self.time) or self.time[place] != moment:
            self.time = np.insert(self.time, place, moment)
            self.free = np.insert(self.free, place, self.free[place - 1])
        return place
