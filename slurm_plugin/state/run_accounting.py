"""The beginning and the end of each run of a job, from Slurm's records.

A run is (job, restart count), in Slurm's own start and end times: a requeue resets the job's run time in Slurm, and a run that is
applied twice, before and after a crash, is still one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tiresias.protocol.control import EXIT_REQUEUE
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state import own_size
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

FAILURES = {"FAILED", "NODE_FAIL", "BOOT_FAIL"}  # states of jobs whose runs failed
# perhaps: in Slurm's record a job that ends while it waits starts when it ends
NEVER_RAN = {"CANCELLED", "DEADLINE", "REVOKED"}


class RunAccounting:
    """Writes the runs of jobs to the journal.

    Args:
        opened: Called with the job for each new run.

    Attributes:
        reopened: Keys of jobs whose run had ended, and that a killed slurmctld shows running again. This is not in the journal.
    """

    def __init__(self, journal: Journal, opened: Callable[[JobRow], None]) -> None:
        self._journal, self._opened = journal, opened
        self.reopened = set[str]()

    def account(self, row: JobRow, job: SlurmJob, runs: dict[int, RunRow]) -> None:
        """Update the job's runs, by restart count, from a record."""
        for run in runs.values():
            if not run.end and run.restart < job.restarts:
                self._close(run, _end_of_requeued(run, job))
        known, is_running = runs.get(job.restarts), job.state in ("RUNNING", "SUSPENDED")
        if job.state == "PENDING" or not job.start_time:
            return
        if not known and job.state in NEVER_RAN and job.start_time == job.end_time:
            return
        run = known or self._open(row, job, runs)
        if is_running and run.end:  # slurmctld was killed and has forgotten the requeue
            self._close(run, 0.0)
            self.reopened.add(run.key)
        elif not is_running and not run.end:
            run.ended_as = _failure(job)
            self._close(run, float(job.end_time))

    def close(self, runs: Iterable[RunRow], end: float) -> None:
        """End the runs that have not ended."""
        for run in runs:
            if not run.end:
                self._close(run, end)

    def set_back(self, runs: Iterable[RunRow], now: float) -> None:
        """Correct ends that lie ahead of a clock that was set back: those of requeues, which are as late as they are seen."""
        for run in runs:
            if run.end > now:
                self._close(run, now)

    def _open(self, row: JobRow, job: SlurmJob, runs: dict[int, RunRow]) -> RunRow:
        nodes = ",".join(f"{share.node}:{share.gpus}" for share in job.shares)
        run = RunRow(
            row.key, job.restarts, float(job.start_time), 0.0, job.gpus, nodes, servers=own_size.servers(row, job),
            account=job.account,
        )  # fmt: skip
        for earlier in runs.values():
            if earlier.end > run.start:  # a requeue by another user was first seen a second after its end
                self._close(earlier, run.start)
        runs[job.restarts] = run
        self._journal.save_run(run)
        self._opened(row)
        return run

    def _close(self, run: RunRow, end: float) -> None:
        """Set the end of a run; 0: it continues."""
        run.end = end and max(end, run.start)
        self.reopened.discard(run.key)
        self._journal.save_run(run)


def _failure(job: SlurmJob) -> str:
    """Return the state of a job that failed; "" of one that did not, or that waited for a requeue which did not come."""
    return job.state if job.state in FAILURES and job.exit_code != EXIT_REQUEUE else ""


def _end_of_requeued(run: RunRow, job: SlurmJob) -> float:
    """Return the end of a run that was requeued.

    A waiting job's end time is that of its last run, any other job's that of the present one. The submit time is the moment at
    which COMPLETING was over, and until then an older one.
    """
    waits = job.state == "PENDING" and job.end_time
    end = job.end_time if waits or job.submit_time < run.start else job.submit_time
    return max(float(end), run.start)
