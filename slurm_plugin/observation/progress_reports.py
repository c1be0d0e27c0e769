"""The progress reports of running jobs: they are read, a step is timed, and the claim of remaining work is stored with the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import progress
from tiresias.protocol.progress import Progress
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state.job_claims import add_claim, worked
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

READ_DIVISOR = 10.0  # a run is read again after its run time divided by this
LONGEST_WAIT_S = 60.0  # between two reads of a run
SHORTEST_WAIT = 0.2  # the same, as a part of `timed`
TIMED_S = 10.0


class _Report(NamedTuple):
    """A report, and when it was first read, epoch seconds."""

    progress: Progress
    read_at: float


@dataclass(slots=True)
class _Run:
    """The reports of the newest run of a job.

    Attributes:
        restart: Slurm's restart count of the run.
        read_next: Epoch second of the next read.
        first, newest: Reports with different steps; None: none yet.
        pace: Seconds a step, of an earlier run until this one is timed; None: not timed.
    """

    restart: int
    read_next: float = 0.0
    first: _Report | None = None
    newest: _Report | None = None
    pace: float | None = None


@dataclass(slots=True)
class ProgressReports:
    """Reads the progress reports, the more rarely the longer a run lasts.

    The controller times the steps: seconds a step are those between two reports that it read, whatever a program claims about time.

    Attributes:
        root: Of the control folders.
        timed: Seconds between the first and the newest report of a run, from which on a step counts as timed.
    """

    root: Path
    timed: float = TIMED_S
    _runs: dict[str, _Run] = field(default_factory=dict)

    def begin_cycle(self, alive: Mapping[str, object]) -> None:
        """Forget ended jobs."""
        for job_id in [one for one in self._runs if one not in alive]:
            del self._runs[job_id]

    def follow(self, job: SlurmJob, row: JobRow, runs: Sequence[RunRow], now: float) -> bool:
        """Read the report of a running job where that is due, and store what it claims in its row.

        Args:
            job: A running job whose supervisor has begun this run.
            row: Its row. `progress`, `total_steps` and the claim change.
            runs: All its runs.
            now: Epoch seconds.

        Returns:
            Whether there was news.
        """
        run = self._run_of(job)
        if now < run.read_next:
            return False
        run.read_next = now + min(
            max((now - job.start_time) / READ_DIVISOR, SHORTEST_WAIT * self.timed), LONGEST_WAIT_S
        )
        found = progress.read(self.root, job.uid, job.id)
        if found.restart != job.restarts or (run.newest and run.newest.progress == found):
            return False
        self._time(run, _Report(found, now))
        row.progress, row.total_steps = float(found.step), float(found.total) if found.total > 0 else None
        if row.total_steps is not None and run.pace is not None:
            add_claim(row, worked(runs, now), max(row.total_steps - row.progress, 0.0) * run.pace)
        return True

    def _run_of(self, job: SlurmJob) -> _Run:
        """Return the job's present run. A step takes as long as in the run before until it is timed."""
        known = self._runs.get(job.id)
        if known is None or known.restart != job.restarts:
            known = self._runs[job.id] = _Run(job.restarts, pace=known.pace if known else None)
        return known

    def _time(self, run: _Run, newest: _Report) -> None:
        """Measure the seconds a step. A step that falls within a run begins the measurement anew."""
        if run.newest is None or newest.progress.step < run.newest.progress.step:
            run.first = newest
        run.newest = newest
        assert run.first
        steps, seconds = newest.progress.step - run.first.progress.step, newest.read_at - run.first.read_at
        if steps > 0 and seconds >= self.timed:
            run.pace = seconds / steps
