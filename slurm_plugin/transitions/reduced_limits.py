"""Running jobs whose time limit was reduced, or set, while they run: their supervisors are signalled, and ask Slurm for the end.

Slurm sends a job nothing when its limit changes. A supervisor reports the end that it expects (supervisor.json); where Slurm's
record has an earlier one, the controller sends control.LIMIT_SIGNAL. It may not write to the folder of a job, which is the owner's,
and each job would have to poll a file elsewhere. No memory of earlier records is needed: after a restart each running job is
compared once. Whatever a report states, it causes a few signals to its own job at most.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tiresias.protocol import control
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmJob
from tiresias.slurm_plugin.backends.record_values import RecordValues, id_of
from tiresias.slurm_plugin.backends.slurm_rules import YEAR
from tiresias.slurm_plugin.transitions.transition_context import TransitionContext

log = logging.getLogger("tiresias")

TOLERANCE_S = 30.0  # between the ends of record and report: a time limit has whole minutes
FIRST_CHECK_S, LONGEST_CHECK_S = 2.0, 60.0  # until the next read of a report that shows no other end yet
SIGNAL_RETRY_S = 60.0  # from a signal to the next one: squeue has that long for an answer
LONGEST_WAIT_S = max(LONGEST_CHECK_S, SIGNAL_RETRY_S)
SIGNALS = 3  # for one end of a run
REPORT_TIMEOUT_S = 600.0  # until a run has reported an end: a job of plain sbatch never does
WORK_S = 1.0  # in a cycle; the rest waits for the next one, which begins at once


@dataclass(slots=True)
class _Check:
    """A running job to compare.

    Attributes:
        end: Epoch second of its end by Slurm's record.
        since: Epoch second since which it is to be compared.
        due: Epoch second of the next read of its report.
        signals: Those sent.
    """

    job: SlurmJob
    end: float
    since: float
    due: float
    signals: int = 0


class ReducedLimits:
    """Compares each running job once for each change of its time limit. O(jobs that changed), besides the search for these."""

    def __init__(self, context: TransitionContext) -> None:
        self._context = context
        self._is_seen = RecordValues(self._see)
        self._runs: dict[str, tuple[int, int, int]] = {}  # restarts, start and limit of the running jobs
        self._checks: dict[str, _Check] = {}  # that are open, by job id
        self._now = -math.inf

    def signal(self, jobs: Sequence[SlurmJob], now: float) -> None:
        """Signal the supervisors of jobs that end earlier than these report, as far as calls are left, the soonest end first.

        Args:
            jobs: All managed jobs of the newest snapshot.
            now: Epoch second.
        """
        self._now = now
        self._is_seen.of(jobs)
        if len(self._runs) > len(jobs):
            self._runs = {job_id: self._runs[job_id] for job_id in map(id_of, jobs) if job_id in self._runs}
        self._checks = {name: one for name, one in self._checks.items() if self._context.record(name) is not None}
        due, stop = self._due(now), time.monotonic() + WORK_S
        for place, check in enumerate(due):
            if time.monotonic() >= stop:
                self._context.allowance.postpone(len(due) - place)
                return
            with self._context.quarantine.guard("comparing its time limit", check.job.id):
                self._compare(check, now)

    def _due(self, now: float) -> list[_Check]:
        """Return the checks that are due; one further ahead than any wait is so, too: the clock was set back."""
        due = [one for one in self._checks.values() if not now < one.due <= now + LONGEST_WAIT_S]
        return sorted((one for one in due if not self._context.quarantine.holds(one.job.id)), key=lambda one: one.end)

    def _see(self, job: SlurmJob) -> bool:
        """Open the check of a new record, where its run or its limit is new. Returns whether the job runs."""
        runs = job.state == "RUNNING" and not job.completing
        if not runs:
            was_open = self._checks.pop(job.id, None) is not None
            # the limit of a suspended job stays, and Slurm only moves its end to a later time
            if was_open or job.state != "SUSPENDED":
                self._runs.pop(job.id, None)
        run = job.restarts, job.start_time, job.time_limit
        if runs and self._runs.get(job.id) != run:
            self._runs[job.id] = run
            self._checks.pop(job.id, None)
            if job.batch and 0 < job.time_limit < YEAR:  # Slurm may show a year for a job without a limit
                self._checks[job.id] = _Check(job, float(job.start_time + job.time_limit), self._now, self._now)
        return runs

    def _compare(self, check: _Check, now: float) -> None:
        check.due = now + min(max(now - check.since, FIRST_CHECK_S), LONGEST_CHECK_S)
        report = self._context.report(check.job)
        # where no end is reported, the supervisor asks for it by itself, or there is none
        if report.restart != check.job.restarts or report.end is None:
            is_over = now - check.since >= REPORT_TIMEOUT_S
        else:
            is_over = report.end <= check.end + TOLERANCE_S or check.signals == SIGNALS
            if not is_over and report.ready and report.state == "running":
                self._send(check, now)
        if is_over:
            del self._checks[check.job.id]

    def _send(self, check: _Check, now: float) -> None:
        job = check.job
        if not self._context.allowance.affords_signal(self._context.intents.values()):
            check.due = now
            return
        self._context.progress()
        with suppress(JobRefused):  # it ends, or slurmctld does not signal it now
            self._context.backend.signal(job.id, control.LIMIT_SIGNAL)
            log.info("job %s: its time limit now ends the run in %.0f s: signalled", job.id, check.end - now)
        check.signals, check.due = check.signals + 1, now + SIGNAL_RETRY_S
