"""What a simulation records while it runs, in compact columns: there are several decisions for each job."""

from __future__ import annotations

from array import array

import numpy as np

from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.simulator.outcome import Timeline
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.trace import Trace


class TimelineRecorder:
    """Records one row of the timeline for each decision. Most decisions change no count: equal counts are stored once."""

    def __init__(self) -> None:
        self._time = array("d")
        self._used, self._running, self._waiting = -1, -1, -1
        self._counts = array("q")  # three each time
        self._first = array("q")  # row of the timeline that has them first

    def add(self, time: float, used: int, running: int, waiting: int) -> None:
        """Record the state of the cluster after the decision at `time`."""
        if running != self._running or used != self._used or waiting != self._waiting:
            self._used, self._running, self._waiting = used, running, waiting
            self._first.append(len(self._time))
            self._counts.extend((used, running, waiting))
        self._time.append(time)

    def timeline(self) -> Timeline:
        """Return what was recorded so far."""
        rows = np.diff(self._first, append=len(self._time))
        used, running, waiting = np.repeat(np.array(self._counts, np.int64).reshape(-1, 3), rows, axis=0).T
        return Timeline(np.array(self._time), used, running, waiting)


class CompletionRecorder:
    """Records the completed jobs, from which policies learn."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._rows, self._service = trace, array("q"), array("d")

    def add(self, job: SimulatedJob, now: float) -> None:
        """Record a job that completes at `now`."""
        self._rows.append(job.row)
        self._service.append((job.held + now - job.last_start) * job.gpus)

    def completed(self) -> Completed:
        """Return the completed jobs as columns."""
        trace, rows = self._trace, np.array(self._rows, np.int64)
        user, vc, model = (tuple(map(words.__getitem__, self._rows)) for words in (trace.user, trace.vc, trace.model))
        return Completed(trace.gpus[rows], np.array(self._service), trace.submit[rows], user, vc, model)
