"""What jobs report of themselves: their control folders, read as seldom as possible."""

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
START_TOLERANCE_S = 2  # seconds between what Slurm tells a job and us of its start, at most


class _Read(NamedTuple):
    """A report, the run that was asked for it, and until when it will do (on the monotonic clock)."""

    report: control.JobReport
    restart: int
    until: float


@dataclass(slots=True)
class Reports:
    """What jobs say of themselves, read from their control folders. A run that was ready stays ready, and is asked for its
    progress now and then; one that is not is asked the less often the longer it runs. So a steady cluster costs the shared file
    system few reads, also where most jobs have no control folder."""

    root: Path
    _read: dict[str, _Read] = field(default_factory=dict)
    _now: float = 0.0  # of the cycle

    def of(self, job: SlurmJob) -> control.JobReport:
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
        """What this run said since it was ready, where that was read."""
        last = self._read.get(job.id)
        return last.report if last and last.report.ready and last.report.restart == job.restarts else None

    def fresh(self, job: SlurmJob) -> control.JobReport:
        """Nothing, where an older job with this id speaks: Slurm reuses ids, and until the supervisor has begun, what that one left
        lies there. Who believed it would signal a job that does not listen yet."""
        found = control.report(self.root, job.uid, job.id)
        older = found.start and job.start_time and abs(found.start - job.start_time) > START_TOLERANCE_S
        return control.JobReport() if older else found

    def begin_cycle(self, alive: Mapping[str, object], now: float) -> None:
        """What has ended is forgotten."""
        self._now = now
        for job_id in [one for one in self._read if one not in alive]:
            del self._read[job_id]
