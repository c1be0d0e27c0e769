"""Which jobs are known to save.

A run that reports a save shows it for all jobs of its script, also for those that wait already: tsbatch assumes it for each later
submission. Whether a save is in time depends on the name and the number of GPUs, too: that is known for the jobs of a kind only.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiresias.protocol.job_kind import script_of
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

LATE_SECONDS = 3600.0  # for which jobs of a kind are not preempted after one of them missed its deadline


class SaveProof:
    """The outcomes of checkpoint requests, by uid and kind of job, and the scripts whose jobs saved, by uid."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._proven = journal.proven()  # jobs that parked on request
        self._savers = {(uid, script_of(kind)) for uid, kind in journal.savers()}
        self._late = journal.late()

    def level(self, row: JobRow, runs: Iterable[RunRow]) -> int:
        """Return how certain it is that the job saves on request.

        Returns:
            2: it or another job of its kind did; 1: its saves are known; 0: nothing is known, or one was late.
        """
        runs = list(runs)
        if self.late_until(row) > 0:
            return 0
        if _saver(row) in self._proven or any(run.pause is not None for run in runs):
            return 2
        return int(any(run.save is not None for run in runs))

    def has_saved(self, row: JobRow, runs: Iterable[RunRow]) -> bool:
        """Return whether a run of the job or of its kind has saved or parked, or one of its script has reported a save."""
        is_known = _script(row) in self._savers or _saver(row) in self._proven
        return is_known or any(run.save is not None or run.pause is not None for run in runs)

    def note_saved(self, row: JobRow) -> None:
        """Note that a run saved; the journal has it with the run."""
        self._savers.add(_script(row))

    def note_parked(self, row: JobRow) -> None:
        """Note that a run parked on request; the journal has it with the run."""
        self._proven.add(_saver(row))
        self._late.pop(_saver(row), None)

    def note_late(self, row: JobRow, now: float) -> None:
        """Note that a job missed its deadline: its kind is not preempted for a while."""
        self._late[_saver(row)] = now
        self._journal.note_late(*_saver(row), now)

    @property
    def some_were_late(self) -> bool:
        """Whether a job was late after which its kind did not save in time again."""
        return bool(self._late)

    def is_late(self, row: JobRow, now: float) -> bool:
        """Return whether a job of its kind was late, so that it is not preempted now."""
        return bool(self._late) and now < self.late_until(row)

    def late_until(self, row: JobRow) -> float:
        """Return until when jobs of its kind are not preempted because one was late; 0: none was."""
        at = self._late.get(_saver(row)) if self._late else None
        return 0.0 if at is None else at + LATE_SECONDS


def _saver(row: JobRow) -> tuple[int, str]:
    """The uid, and what jobs that save alike have in common: a job that tsbatch did not submit is a kind of its own."""
    return row.uid, row.kind or row.key


def _script(row: JobRow) -> tuple[int, str]:
    """The uid, and the script of a job that tsbatch submitted, else the job."""
    return row.uid, script_of(row.kind) or row.key
