"""Which running jobs may be preempted now, and which jobs may run beyond the cells of their virtual cluster.

Two questions are answered about a running job:

- May a *policy* preempt it, for a job that ranks before it? Only where it saves, and not too often (`why_unmovable`).
- May it be preempted *for the owner of the cells* on which it runs opportunistically? The guarantee of the owner is not limited by
  `policy.min_run`, `policy.cooldown`, `policy.max_preemptions`, a late save, or a limit of Slurm that keeps the job from starting
  again at once (`why_kept`). A job that cannot save, or did not in time, is then ended and starts again from the beginning.

Therefore only those jobs may run opportunistically that are known to save or whose owners accept that (`why_confined`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.protocol.control import JobReport
from tiresias.protocol.opportunistic_choice import NO, RESTART, SAVES
from tiresias.scheduler.model import Bools, Ints, JobState
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.reports import Reports
from tiresias.slurm_plugin.state import job_reasons
from tiresias.slurm_plugin.state.intents import IntentKind
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.ledger import Ledger

NOTHING: Mapping[str, str] = {}
UNPROVEN = "has not shown that it can checkpoint"
UNKNOWN_SAVER = (
    "it is not known to save, and its owner accepts no restart from the beginning (tsbatch --opportunistic=restart)"
)


class Beyond(NamedTuple):
    """Columns of `Jobs`, shape (jobs,); None: neutral values."""

    opportunistic: Bools | None = None
    reclaimable: Bools | None = None


class Preemptability:
    """Joins the jobs' reports, their history and their owners' choices.

    Attributes:
        unprotected: The partition that comes before a job's own on each such node: nothing is preempted there (sharing.py).
    """

    def __init__(self, config: Config, ledger: Ledger, reports: Reports) -> None:
        self._config, self._ledger, self._reports = config, ledger, reports
        self.unprotected: Mapping[str, str] = NOTHING
        self._not_restartable: Mapping[str, str] = NOTHING
        self._paused = ""

    def begin_cycle(self, not_restartable: Mapping[str, str], paused: str) -> None:
        """Take what holds for all jobs of a snapshot.

        Args:
            not_restartable: Why Slurm would not start a running job again now, by job id.
            paused: Why no job is preempted at all; "" where jobs are.
        """
        self._not_restartable, self._paused = not_restartable, paused

    # running jobs

    def why_unmovable(self, job: SlurmJob, now: float) -> str:
        """Return why no policy may preempt a running job now; "" if one may."""
        row = self._ledger.jobs[job.id]
        reason = _why_never(job) or job_reasons.text(row.unmovable)
        return (
            reason
            or self._why_late(row, now)
            or self._why_there(job)
            or self._why_again(row, job, now)
            or self._why_not_saving(row, job)
            or self._why_not_restarted(job)
            or self._paused
        )

    def why_kept(self, job: SlurmJob) -> str:
        """Return why a running job may not be preempted for the owner of the cells on which it runs; "" if it may."""
        row = self._ledger.jobs[job.id]
        if reason := _why_never(job):
            return reason
        if row.unmovable and not job_reasons.is_code(row.unmovable, job_reasons.Unmovable.NOT_SAVED):
            return job_reasons.text(row.unmovable)
        return self._why_there(job) or ("" if self._may_end(row, job) else UNPROVEN) or self._paused

    def kind_of_preemption(self, job: SlurmJob) -> IntentKind:
        """Return how a running job is preempted: by checkpoint, or, where it does not save, by a restart from the beginning."""
        saves = self._reported(job).ready and not self._ledger.jobs[job.id].unmovable
        return IntentKind.PREEMPT if saves else IntentKind.RESTART

    def _reported(self, job: SlurmJob) -> JobReport:
        """Return the report of the job's present run; an empty one where there is none."""
        report = self._reports.of(job)
        return report if report.restart == job.restarts else JobReport()

    def _why_late(self, row: JobRow, now: float) -> str:
        until = self._ledger.saves.late_until(row)
        return (
            f"a job of its kind did not save in time: not preempted for another {until - now:.0f} s"
            if now < until
            else ""
        )

    def _why_there(self, job: SlurmJob) -> str:
        found = next((share.node for share in job.shares if share.node in self.unprotected), "")
        return f"partition {self.unprotected[found]} comes before its own on {found} (PriorityTier)" if found else ""

    def _why_again(self, row: JobRow, job: SlurmJob, now: float) -> str:
        policy = self._config.policy_of(job.partition)
        if policy.max_preemptions and row.preemptions >= policy.max_preemptions:
            return f"was preempted {row.preemptions} times already (policy.max_preemptions)"
        if now - row.last_preempted < policy.cooldown:
            return "was preempted a short while ago (policy.cooldown)"
        return ""

    def _why_not_saving(self, row: JobRow, job: SlurmJob) -> str:
        report = self._reported(job)
        if report.refused or report.ready:
            return report.refused
        if row.opportunistic == RESTART and self._config.virtual_clusters:
            return f"{UNPROVEN}; beyond the cells of its virtual cluster it is ended when they are needed, as its owner accepts"
        return UNPROVEN

    def _why_not_restarted(self, job: SlurmJob) -> str:
        reason = self._not_restartable.get(job.id)
        return f"could not start again now: {reason}" if reason else ""

    def _may_end(self, row: JobRow, job: SlurmJob) -> bool:
        """Return whether the job may be preempted even if it does not save in time.

        Its owner accepts that, or it has been let in as a job that saves. Without a report of its run, as where the control folder
        is unavailable, it is not known whether it could save.
        """
        if row.opportunistic == RESTART:
            return True
        report = self._reported(job)
        return report.restart == job.restarts and (report.ready or self._is_saver(row))

    # jobs that may run opportunistically

    def why_confined(self, job: SlurmJob, now: float) -> str:
        """Return why a job runs in the cells of its virtual cluster only; "" if it may run beyond them."""
        row = self._ledger.jobs[job.id]
        if reason := _why_never(job):
            return reason
        if row.opportunistic == NO:
            return "its owner submitted it with --opportunistic=no"
        if row.opportunistic == RESTART:
            return ""
        if now < (until := self._ledger.saves.late_until(row)):
            return f"a job of its kind did not save in time: not there for another {until - now:.0f} s"
        is_known = bool(row.opportunistic or self._ledger.runs[row.key])  # a job of an earlier tsbatch has runs at most
        return "" if is_known and (self._is_saver(row) or self._is_ready(job)) else UNKNOWN_SAVER

    def _is_ready(self, job: SlurmJob) -> bool:
        return job.state == "RUNNING" and self._reported(job).ready

    def _is_saver(self, row: JobRow) -> bool:
        return row.opportunistic == SAVES or self._ledger.saves.has_saved(row, self._ledger.runs_of(row))

    # columns of the snapshot

    def columns(self, jobs: Sequence[SlurmJob], state: Ints, movable: Bools, now: float) -> Beyond:
        """Return the columns of `Jobs` for runs beyond the cells of virtual clusters. O(jobs).

        Args:
            jobs: The jobs.
            state: Of `JobState`, shape (jobs,).
            movable: Those that a policy may preempt, shape (jobs,).
            now: Epoch second.
        """
        running = (state == JobState.RUNNING).tolist()
        return Beyond(
            np.array([not self.why_confined(job, now) for job in jobs], dtype=bool),
            movable
            | np.array([runs and not self.why_kept(job) for job, runs in zip(jobs, running, strict=True)], bool),
        )


def _why_never(job: SlurmJob) -> str:
    """Return why Slurm does not requeue a job; "" if it does."""
    if not job.batch:
        return "an srun or salloc allocation cannot be requeued"
    return "" if job.requeue else "submitted with --no-requeue"
