"""What the journal has of a job that the ledger meets after a kill of slurmctld: of one that it forgot and whose id another
job has, of one whose last run slurmctld forgot, and of one whose end it lost."""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

REQUEUED_S = 2.0  # between the end of a run and the submit time of its requeue at most, as both are whole seconds
STARTED_WITHIN_S = 60.0  # from the decision to Slurm's start


class FormerJobs:
    """Jobs of the same id, or of the same number where arrays have it.

    Args:
        journal: The journal.
        rows: The rows of the ledger, by job id.
    """

    def __init__(self, journal: Journal, rows: Mapping[str, JobRow]) -> None:
        self._journal, self._rows = journal, rows
        self._held: dict[str, set[float]] | None = None  # by number; None: not needed yet
        self._replaced: list[JobRow] = []

    def renew(self) -> None:
        """Begin with a new snapshot."""
        self._held, self._replaced = None, []

    def replaced(self, row: JobRow) -> None:
        """Note that another job of the snapshot has the id of this one."""
        self._replaced.append(row)

    def hold_met(self, job: SlurmJob) -> bool:
        """Return whether a hold of the controller may have met this job, which has no row yet, in place of a former one.

        A hold of job 7 holds all tasks of array 7, where a killed slurmctld has given the number of the one to the other.
        """
        if not job.held_by_admin or job.restarts:
            return False
        if self._held is None:
            self._held = {}
            for row in (*self._rows.values(), *self._replaced):
                if row.held:
                    self._held.setdefault(_number(row.id), set()).add(row.submit)
        return bool(self._held.get(_number(job.id), set()) - {float(job.submit_time)})

    def choice(self, job: SlurmJob) -> str:
        """Return the owner's choice of `--opportunistic` for a job whose last run, and its end, slurmctld forgot; "": not known.

        It is waiting again as after the requeue before that run. Its notes have the time of its submission, which the record lacks.
        """
        row = self._journal.job(job.id) if job.restarts else None
        if row is None or not row.ended or row.uid != job.uid:
            return ""
        before = next((run for run in self._journal.runs(row.key) if run.restart == job.restarts - 1), None)
        is_same = before is not None and abs(before.end - job.submit_time) <= REQUEUED_S
        return row.opportunistic if is_same else ""

    def with_lost_end(self, job: SlurmJob) -> tuple[JobRow, dict[int, RunRow]] | None:
        """Return row and runs, by restart count, of a job whose end slurmctld lost; None for any other job.

        The journal has the job's runs and its owner's request; the record shows the controller's pin in place of that request."""
        row = self._journal.job(job.id)
        if row is None or not row.ended:
            return None
        runs = {run.restart: run for run in self._journal.runs(row.key)}
        newest = runs.get(job.restarts)
        same_run = newest is not None and (newest.start == job.start_time or self._was_started(row, job))
        return (row, runs) if row.key == first_key(job) or same_run else None

    def _was_started(self, row: JobRow, job: SlurmJob) -> bool:
        """Return whether the controller has started this run of the job.

        The run in the journal may be an earlier one of the same restart count, which a killed slurmctld had forgotten.
        """
        starts = (one.began for one in self._journal.starts(row.key) if one.restart == job.restarts)
        return any(job.submit_time <= began <= job.start_time + 1 <= began + STARTED_WITHIN_S for began in starts)


def first_key(job: SlurmJob) -> str:
    """Return the key of a job that was never requeued: a requeue moves the submit time."""
    return f"{job.id}@{job.submit_time}"


def _number(job_id: str) -> str:
    """Return the number of a job or of an array."""
    return job_id.partition("_")[0]
