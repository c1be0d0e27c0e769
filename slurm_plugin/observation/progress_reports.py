"""The progress reports of running jobs: they are read, a step is timed, and the claim of remaining work is stored with the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import progress
from tiresias.protocol.progress import NO_PROGRESS, Progress
from tiresias.scheduler.estimates.step_times import StepPace, StepTimes
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state.job_claims import add_claim, rescale, worked
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

READ_DIVISOR = 10.0  # a run is read again after its run time divided by this
LONGEST_WAIT_S = 60.0  # between two reads of a run
SHORTEST_WAIT = 0.2  # the same, as a part of `timed`
TIMED_S = 10.0


class Report(NamedTuple):
    """A report that was read, and the timed steps of its run; None: not timed yet."""

    progress: Progress
    pace: StepPace | None


@dataclass(slots=True)
class _Run:
    """The reports of the newest run of a job.

    Attributes:
        restart: Slurm's restart count of the run.
        times: The timing of its steps.
        pace: Seconds a step, of an earlier run until this one is timed; None: not timed.
        is_timed: The pace is that of this run.
        read_next: Epoch second of the next read.
        newest: The newest report.
    """

    restart: int
    times: StepTimes
    pace: float | None
    is_timed: bool = False
    read_next: float = 0.0
    newest: Progress = NO_PROGRESS


@dataclass(slots=True)
class ProgressReports:
    """Reads the progress reports, the more rarely the longer a run lasts.

    The controller times the steps: seconds a step are those between two reports that it read, whatever a program claims about time.
    However often a program reports, its file is read at these moments only.

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

    def is_reported(self, job: SlurmJob) -> bool:
        """Return whether the job's present run has reported its progress, so that no other source of its step counts."""
        run = self._runs.get(job.id)
        return run is not None and run.restart == job.restarts and run.newest is not NO_PROGRESS

    def follow(self, job: SlurmJob, row: JobRow, runs: Sequence[RunRow], now: float) -> Report | None:
        """Read the report of a running job where that is due, and store what it claims in its row.

        Args:
            job: A running job whose supervisor has begun this run.
            row: Its row. `progress`, `total_steps` and the claim change.
            runs: All its runs.
            now: Epoch seconds.

        Returns:
            The report; None: it is not due, or there is no other one than before.
        """
        run = self._run_of(job, runs)
        if now < run.read_next:
            return None
        run.read_next = now + min(
            max((now - job.start_time) / READ_DIVISOR, SHORTEST_WAIT * self.timed), LONGEST_WAIT_S
        )
        found = progress.read(self.root, job.uid, job.id)
        if found.restart != job.restarts or run.newest == found:
            return None
        run.newest = found
        run.times.add(now, found.step, found.samples)
        if pace := run.times.pace():
            if not run.is_timed:
                rescale(row, runs, job.restarts, pace.seconds, now)
            run.pace, run.is_timed = pace.seconds, True
        row.progress, row.total_steps = float(found.step), float(found.total) if found.total > 0 else None
        if row.total_steps is not None and run.pace is not None:
            add_claim(row, worked(runs, now), max(row.total_steps - row.progress, 0.0) * run.pace)
        return Report(found, pace)

    def _run_of(self, job: SlurmJob, runs: Sequence[RunRow]) -> _Run:
        """Return the job's present run. Until it is timed, a step takes as long as in the run before with the same size."""
        known = self._runs.get(job.id)
        if known is None or known.restart != job.restarts:
            before = known.pace if known and len({run.gpus for run in runs[-2:]}) < 2 else None
            known = self._runs[job.id] = _Run(job.restarts, StepTimes(self.timed), before or _timed(runs))
        return known


def _timed(runs: Sequence[RunRow]) -> float | None:
    """Return the seconds a step that the journal has of the newest run, or of one before it with its size."""
    return next((run.timed for run in reversed(runs) if run.timed is not None and run.gpus == runs[-1].gpus), None)
