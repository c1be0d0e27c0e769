"""The reports of jobs: their control folders, read as rarely as possible."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse, repeat
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiresias.protocol import control
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import id_of

PROGRESS_POLL_S = 120.0  # seconds between two reads of the progress of a run that is ready
NOT_READY_POLL_DIVISOR = 10.0  # a run that is not ready is read again after its run time divided by this
START_TOLERANCE_S = 2  # seconds between the start time in a job's environment and in its record, at most


class _Read(NamedTuple):
    """A report, the run that it is from, and until when it is used (on the monotonic clock)."""

    report: control.JobReport
    restart: int
    until: float


_UNREAD = _Read(control.JobReport(), -1, -math.inf)


@dataclass(slots=True)
class Reports:
    """The reports of jobs, read from their control folders.

    A run that was ready stays ready, and its progress is read at intervals; one that is not is read less often the longer it
    runs. So a steady cluster costs the shared file system few reads, also where most jobs have no control folder.
    """

    root: Path
    _read: dict[str, _Read] = field(default_factory=dict)
    _now: float = 0.0  # of the cycle

    def of(self, job: SlurmJob) -> control.JobReport:
        """Return the report of a job, at most as old as its state permits."""
        last = self._read.get(job.id)
        if last and last.restart == job.restarts and time.monotonic() < last.until:
            return last.report
        known, found = self.known(job), self.fresh(job)
        ready = found.ready and found.restart == job.restarts
        if known and not ready:
            ready, found = True, known
        wait = (
            PROGRESS_POLL_S
            if ready
            else min(max(self._now - job.start_time, 0.0) / NOT_READY_POLL_DIVISOR, PROGRESS_POLL_S)
        )
        self._read[job.id] = _Read(found, job.restarts, time.monotonic() + wait)
        return found

    def of_each(self, jobs: Sequence[SlurmJob]) -> list[control.JobReport]:
        """Return the report of each job, as `of` does. O(jobs), and a read of those that are due."""
        read = list(map(self._read.get, map(id_of, jobs), repeat(_UNREAD)))
        restart, until = (np.fromiter(map(itemgetter(at), read), np.float64, len(jobs)) for at in (1, 2))
        restarts = np.fromiter(map(attrgetter("restarts"), jobs), np.float64, len(jobs))
        found = list(map(itemgetter(0), read))
        for at in np.flatnonzero((restart != restarts) | (until <= time.monotonic())).tolist():
            found[at] = self.of(jobs[at])
        return found

    def until(self, job: SlurmJob) -> float:
        """Return until when `of` returns the same report, on the monotonic clock."""
        last = self._read.get(job.id)
        return last.until if last and last.restart == job.restarts else -math.inf

    def known(self, job: SlurmJob) -> control.JobReport | None:
        """Return the last report of this run that was read since it was ready."""
        last = self._read.get(job.id)
        return last.report if last and last.report.ready and last.report.restart == job.restarts else None

    def fresh(self, job: SlurmJob) -> control.JobReport:
        """Read the report now; empty where it is from an older job with this id.

        Slurm reuses ids, and the folder contains the older job's report until the supervisor has begun. To trust it would mean
        to signal a job that does not handle signals yet.
        """
        found = control.report(self.root, job.uid, job.id)
        older = found.start and job.start_time and abs(found.start - job.start_time) > START_TOLERANCE_S
        return control.JobReport() if older else found

    def begin_cycle(self, alive: Mapping[str, object], now: float) -> None:
        """Forget the reports of ended jobs."""
        self._now = now
        for job_id in list(filterfalse(alive.__contains__, self._read)):
            del self._read[job_id]
