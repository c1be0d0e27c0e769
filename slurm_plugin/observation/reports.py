"""The reports of jobs: their control folders, read as rarely as possible."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control
from tiresias.slurm_plugin.backends.interface import SlurmJob

PROGRESS_POLL_S = 120.0  # seconds between two reads of the progress of a run that is ready
NOT_READY_POLL_DIVISOR = 10.0  # a run that is not ready is read again after its run time divided by this
START_TOLERANCE_S = 2  # seconds between the start time in a job's environment and in its record, at most


class _Read(NamedTuple):
    """A report, the run that it is from, and until when it is used (on the monotonic clock)."""

    report: control.JobReport
    restart: int
    until: float


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
        for job_id in [one for one in self._read if one not in alive]:
            del self._read[job_id]
