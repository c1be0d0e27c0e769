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

_NEWEST: Final = 3 * 4096  # counts that are stored in a list


class TimelineRecorder:
    """Records one row of the timeline for each decision. Most decisions change no count: equal counts are stored once."""

    def __init__(self) -> None:
        self._used, self._running, self._waiting = -1, -1, -1
        self._counts = _Column("q")  # three each time
        self._first = _Column("q")  # row of the timeline that has them first
        self._time = _Column("d")

    def add(self, time: float, used: int, running: int, waiting: int) -> None:
        """Record the state of the cluster after the decision at `time`."""
        if running != self._running or used != self._used or waiting != self._waiting:
            self._used, self._running, self._waiting = used, running, waiting
            self._first.newest.append(len(self._time))
            self._counts.newest += (used, running, waiting)
            if len(self._counts.newest) >= _NEWEST:
                self._pack()
        self._time.newest.append(time)

    def repeat(self, time: float) -> None:
        """Record a decision at `time` that changed nothing."""
        self._time.newest.append(time)

    def _pack(self) -> None:
        for column in (self._first, self._counts, self._time):
            column.pack()

    def timeline(self) -> Timeline:
        """Return what was recorded so far."""
        rows = np.diff(self._first.stored(), append=len(self._time))
        used, running, waiting = np.repeat(self._counts.stored().reshape(-1, 3), rows, axis=0).T
        return Timeline(self._time.stored(), used, running, waiting)


class _Column:
    """Numbers, stored compactly.

    Attributes:
        newest: The last ones. A list is faster; `pack` has to be called from time to time.
    """

    def __init__(self, typecode: str) -> None:
        self._packed, self.newest = array(typecode), list[Any]()

    def __len__(self) -> int:
        return len(self._packed) + len(self.newest)

    def pack(self) -> None:
        """Store the newest numbers compactly."""
        self._packed.fromlist(self.newest)
        self.newest.clear()

    def stored(self) -> Any:
        """Return all of them as an array."""
        self.pack()
        return np.array(self._packed)


class JobRecorder:
    """Records the results of jobs that have ended, by row. Lists: single values are set faster than in arrays."""

    def __init__(self, jobs: int) -> None:
        self._start, self._finish, self._preemptions = [math.nan] * jobs, [math.nan] * jobs, [0] * jobs
        self._resizes, self._held = [0] * jobs, [math.nan] * jobs

    def add(self, job: SimulatedJob, now: float) -> None:
        """Record a job that ends at `now`."""
        self._held[job.row] = job.held + now - job.last_start
        self._start[job.row], self._finish[job.row], self._preemptions[job.row] = job.first_start, now, job.preemptions
        self._resizes[job.row] = job.resizes

    def columns(self, trace: Trace) -> tuple[Floats, Floats, Floats, Ints]:
        """Return first start, end, completion time and preemptions as in `Outcome`."""
        finish = np.array(self._finish)
        return np.array(self._start), finish, finish - trace.submit, np.array(self._preemptions, np.int64)

    def held(self) -> Floats:
        """Return the seconds on GPUs of each job."""
        return np.array(self._held)

    def resizes(self) -> Ints:
        """Return the changes of size of each job."""
        return np.array(self._resizes, np.int64)


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
        self._service.append((job.held + now - job.last_start) * job.gpus + job.extra + job.extra_before)

    def completed(self) -> Completed:
        """Return the completed jobs as columns, those of the history first."""
        trace, rows = self._trace, np.array(self._rows, np.int64)
        for names, words in zip(self._names, (trace.user, trace.vc, trace.model), strict=True):
            names.extend(map(words.__getitem__, self._rows[len(names) :]))
        user, vc, model = map(tuple, self._names)
        found = Completed(trace.gpus[rows], np.array(self._service), trace.submit[rows], user, vc, model)
        return self._history.followed_by(found)
