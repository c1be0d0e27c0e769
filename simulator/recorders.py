"""What a simulation records while it runs, in compact columns: there are several decisions for each job."""

from __future__ import annotations

import math
from array import array
from typing import Any, Final

import numpy as np

from tiresias.scheduler.estimates.completed_jobs import NO_JOBS_COMPLETED, Completed
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.outcome import Timeline
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.trace import Trace

_NEWEST: Final = 4096


class TimelineRecorder:
    """Records one row of the timeline for each decision. Most decisions change no count: equal counts are stored once."""

    def __init__(self) -> None:
        self._used, self._running, self._waiting = -1, -1, -1
        self._counts = _Column("q")  # three each time
        self._first = _Column("q")  # row of the timeline that has them first
        self._time, self._rows = _Column("d"), 0

    def add(self, time: float, used: int, running: int, waiting: int) -> None:
        """Record the state of the cluster after the decision at `time`."""
        if running != self._running or used != self._used or waiting != self._waiting:
            self._used, self._running, self._waiting = used, running, waiting
            self._first.append(self._rows)
            self._counts.append(used)
            self._counts.append(running)
            self._counts.append(waiting)
        self._time.append(time)
        self._rows += 1

    def timeline(self) -> Timeline:
        """Return what was recorded so far."""
        rows = np.diff(self._first.stored(), append=self._rows)
        used, running, waiting = np.repeat(self._counts.stored().reshape(-1, 3), rows, axis=0).T
        return Timeline(self._time.stored(), used, running, waiting)


class _Column:
    """Numbers, stored compactly. The newest are in a list, which is faster."""

    def __init__(self, typecode: str) -> None:
        self._stored, self._newest = array(typecode), list[Any]()

    def append(self, number: Any) -> None:
        self._newest.append(number)
        if len(self._newest) == _NEWEST:
            self._store()

    def _store(self) -> None:
        self._stored.fromlist(self._newest)
        self._newest.clear()

    def stored(self) -> Any:
        """Return all of them as an array."""
        self._store()
        return np.array(self._stored)


class JobRecorder:
    """Records the results of jobs that have ended, by row. Lists: single values are set faster than in arrays."""

    def __init__(self, jobs: int) -> None:
        self._start, self._finish, self._preemptions = [math.nan] * jobs, [math.nan] * jobs, [0] * jobs

    def add(self, job: SimulatedJob, now: float) -> None:
        """Record a job that ends at `now`."""
        self._start[job.row], self._finish[job.row], self._preemptions[job.row] = job.first_start, now, job.preemptions

    def columns(self, trace: Trace) -> tuple[Floats, Floats, Floats, Ints]:
        """Return first start, end, completion time and preemptions as in `Outcome`."""
        finish = np.array(self._finish)
        return np.array(self._start), finish, finish - trace.submit, np.array(self._preemptions, np.int64)


class CompletionRecorder:
    """Records the completed jobs, from which policies learn.

    Args:
        trace: The jobs of the simulation.
        history: Jobs that completed before it.
    """

    def __init__(self, trace: Trace, history: Completed = NO_JOBS_COMPLETED) -> None:
        self._history, self._trace = history, trace
        self._rows, self._service = array("q"), array("d")
        self._names: list[list[str]] = [[], [], []]  # user, virtual cluster and model of the first rows

    def add(self, job: SimulatedJob, now: float) -> None:
        """Record a job that completes at `now`."""
        self._rows.append(job.row)
        self._service.append((job.held + now - job.last_start) * job.gpus)

    def completed(self) -> Completed:
        """Return the completed jobs as columns, those of the history first."""
        trace, rows = self._trace, np.array(self._rows, np.int64)
        for names, words in zip(self._names, (trace.user, trace.vc, trace.model), strict=True):
            names.extend(map(words.__getitem__, self._rows[len(names) :]))
        user, vc, model = map(tuple, self._names)
        found = Completed(trace.gpus[rows], np.array(self._service), trace.submit[rows], user, vc, model)
        return self._history.followed_by(found)
