"""What is measured of jobs that report their progress, and kept in the journal: their losses, and the seconds a step of each run.

However often programs report, a job costs the journal at most one small write in WRITE_S; all jobs share one transaction. What is
not written yet when a controller is killed, its successor does not have: some losses of the last minutes.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import islice

from tiresias.protocol import convergence
from tiresias.scheduler.estimates.loss_history import LossHistory
from tiresias.scheduler.estimates.step_times import StepPace
from tiresias.slurm_plugin.observation.progress_reports import Report
from tiresias.slurm_plugin.state.journal_progress import KEPT_S
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.ledger import Ledger

LOSSES_KEPT = 128  # points of a job
WRITE_S = 10.0  # between two writes
MOST_AT_ONCE = 256  # histories and runs of a write; those of thousands of jobs are written one part after the other
FORGET_S = 3600.0  # between two deletions of the losses of ended jobs
_CHANGED = 0.05  # relative change of the seconds a step, from which on they are written


class MeasuredProgress:
    """The measurements of all jobs.

    Args:
        ledger: The jobs.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._histories: dict[str, LossHistory] = {}  # by the job's key, as below
        self._changed: dict[str, None] = {}  # histories to write, the one that waits longest first
        self._runs: dict[tuple[str, int], RunRow] = {}  # to write
        self._write_at = self._forget_at = self._forgotten = 0.0

    def begin_cycle(self, keys: Collection[str]) -> None:
        """Forget ended jobs. keys: of the live ones."""
        for key in [one for one in self._histories if one not in keys]:
            del self._histories[key]

    def history(self, key: str) -> LossHistory:
        """Return the losses of a job."""
        if key not in self._histories:
            stored = self._ledger.measured.losses(key)
            self._histories[key] = LossHistory.of(stored.points, stored.reports_a_point, LOSSES_KEPT)
        return self._histories[key]

    def take(self, row: JobRow, restart: int, found: Report) -> None:
        """Take a report.

        Args:
            row: The job's row.
            restart: Slurm's restart count of its run.
            found: The report that was read.
        """
        report, pace = found
        if report.loss is not None:
            self.history(row.key).add(float(report.step), report.loss)
            self._changed.setdefault(row.key)
        if row.converges != (stated := convergence.as_text(report.until)):
            row.converges = stated
            self._ledger.save(row)
        if pace is not None and (run := self._ledger.run(row, restart)):
            self._note_pace(run, pace)

    def note_expected(self, run: RunRow, seconds: float) -> None:
        """Note the seconds a step that are expected of the size of a run that is not timed yet."""
        if run.expected is None and not math.isnan(seconds):
            run.expected = seconds
            self._runs[run.key, run.restart] = run

    def write(self, now: float) -> None:
        """Write to the journal what is new, at most once in WRITE_S. Raises StateError."""
        if now < self._write_at:
            return
        self._write_at = now + WRITE_S
        keys, runs = list(islice(self._changed, MOST_AT_ONCE)), list(islice(self._runs, MOST_AT_ONCE))
        histories = [(key, self._histories[key]) for key in keys if key in self._histories]
        losses = [(key, history.changes(), history.reports_a_point) for key, history in histories]
        if losses or runs:
            self._ledger.save_progress([self._runs[run] for run in runs], losses)
        for key in keys:
            del self._changed[key]
        for run in runs:
            del self._runs[run]
        if now >= self._forget_at:
            self._ledger.measured.forget_losses(self._forgotten - KEPT_S, now - KEPT_S)
            self._forget_at, self._forgotten = now + FORGET_S, now

    def _note_pace(self, run: RunRow, pace: StepPace) -> None:
        if run.timed is None or abs(pace.seconds / run.timed - 1.0) > _CHANGED:
            run.timed, run.samples = pace.seconds, None if math.isnan(pace.samples) else pace.samples
            self._runs[run.key, run.restart] = run
