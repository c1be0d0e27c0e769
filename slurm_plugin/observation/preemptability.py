"""Which running jobs may be preempted now, and which jobs may run beyond the cells of their virtual cluster.

Two questions are answered about a running job:

- May a *policy* preempt it, for a job that ranks before it? Only where it saves, and not too often (`why_unmovable`).
- May it be preempted *for the owner of the cells* on which it runs opportunistically? The guarantee of the owner is not limited by
  `policy.min_run`, `policy.cooldown`, `policy.max_preemptions`, a late save, or a limit of Slurm that keeps the job from starting
  again at once (`why_kept`). A job that cannot save, or did not in time, is then ended and starts again from the beginning.

Therefore only those jobs may run opportunistically that are known to save or whose owners accept that (`why_confined`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import repeat
from operator import is_, itemgetter
from typing import Any, NamedTuple

import numpy as np

from tiresias.protocol.control import JobReport
from tiresias.protocol.opportunistic_choice import NO, RESTART, SAVES
from tiresias.scheduler.model import Bools, Ints, JobState
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import id_of
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.decision_times import DecisionTimes
from tiresias.slurm_plugin.observation.reports import Reports
from tiresias.slurm_plugin.state import job_reasons
from tiresias.slurm_plugin.state.change_stamps import stamps_of
from tiresias.slurm_plugin.state.intents import IntentKind
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.ledger import Ledger

NOTHING: Mapping[str, str] = {}
NO_REPORT = JobReport()
UNPROVEN = "has not shown that it can checkpoint"
UNKNOWN_SAVER = (
    "it is not known to save, and its owner accepts no restart from the beginning (tsbatch --opportunistic=restart)"
)


class _KeptWhy(NamedTuple):
    """Why a running job is unmovable.

    Attributes:
        job: Its record.
        stamp: Of its row.
        why: The reason.
        until: Epoch second until when it holds.
        read_until: Until when its report is not read again, on the monotonic clock.
    """

    job: SlurmJob
    stamp: int
    why: str
    until: float
    read_until: float


_NOT_KNOWN: Any = (None, -1, "", -math.inf, -math.inf)


class Beyond(NamedTuple):
    """Columns of `Jobs`, shape (jobs,); None: neutral values."""

    opportunistic: Bools | None = None
    reclaimable: Bools | None = None
    saves: Bools | None = None


class Preemptability:
    """Joins the jobs' reports, their history and their owners' choices.

    Attributes:
        unprotected: The partition that comes before a job's own on each such node: nothing is preempted there (sharing.py).
        decision_times: When policies may preempt.
    """

    def __init__(self, config: Config, ledger: Ledger, reports: Reports) -> None:
        self._config, self._ledger, self._reports = config, ledger, reports
        self.unprotected: Mapping[str, str] = NOTHING
        self._not_restartable: Mapping[str, str] = NOTHING
        self._paused = ""
        self._policy_of = cache(config.policy_of)
        self._why: dict[str, _KeptWhy] = {}  # by job id
        self._holds_for: tuple[object, ...] = ()  # what the kept answers depend on besides their jobs
        self._now, self._clock = -math.inf, -math.inf  # epoch seconds, and of the monotonic clock, of the cycle
        self.decision_times = DecisionTimes(_intervals(config))

    def begin_cycle(self, not_restartable: Mapping[str, str], paused: str, now: float) -> None:
        """Take what holds for all jobs of a snapshot.

        Args:
            now: Epoch seconds of the snapshot.
            not_restartable: Why Slurm would not start a running job again now, by job id.
            paused: Why no job is preempted at all; "" where jobs are.
        """
        self._not_restartable, self._paused = not_restartable, paused
        self.decision_times.begin(now)
        waits = tuple(map(self.decision_times.wait, _intervals(self._config)))
        holds_for = (self.unprotected, dict(not_restartable), paused, waits)
        if holds_for != self._holds_for or now < self._now or len(self._why) > len(self._ledger.jobs):
            self._why = {}
        self._holds_for, self._now, self._clock = holds_for, now, time.monotonic()

    # running jobs

    def why_unmovable(self, job: SlurmJob, now: float) -> str:
        """Return why no policy may preempt a running job now; "" if one may.

        Kept from cycle to cycle, until its record, its row, its report or what holds for all jobs changes.
        """
        row, known = self._ledger.jobs[job.id], self._why.get(job.id)
        if known is None or known.stamp != row.stamp or known.job is not job or not self._is_kept(known, row, now):
            found, is_brief = self._find_why(row, job, now), self._is_cooling(row, job, now)
            until = -math.inf if is_brief or self._ledger.saves.is_late(row, now) else math.inf
            known = self._why[job.id] = _KeptWhy(job, row.stamp, found, until, self._reports.until(job))
        return known.why

    def why_each(self, jobs: Sequence[SlurmJob], now: float) -> list[str]:
        """Return for each running job what `why_unmovable` returns. O(jobs), and a call of it where the answer may have changed."""
        count, rows = len(jobs), list(map(self._ledger.jobs.__getitem__, map(id_of, jobs)))
        known: list[Any] = list(map(self._why.get, map(id_of, jobs), repeat(_NOT_KNOWN)))
        same = np.fromiter(map(is_, map(itemgetter(0), known), jobs), np.bool_, count)
        stamps = np.fromiter(map(itemgetter(1), known), np.int64, count)
        until, read_until = (np.fromiter(map(itemgetter(at), known), np.float64, count) for at in (3, 4))
        is_kept = same & (stamps == stamps_of(rows)) & (now < until) & (self._clock < read_until)
        if self._ledger.saves.some_were_late:
            is_kept &= np.array([not self._ledger.saves.is_late(row, now) for row in rows], bool)
        found = list(map(itemgetter(2), known))
        for at in np.flatnonzero(~is_kept).tolist():
            found[at] = self.why_unmovable(jobs[at], now)
        return found

    def _is_kept(self, known: _KeptWhy, row: JobRow, now: float) -> bool:
        return now < known.until and self._clock < known.read_until and not self._ledger.saves.is_late(row, now)

    def _find_why(self, row: JobRow, job: SlurmJob, now: float) -> str:
        reason = _why_never(job) or (job_reasons.text(row.unmovable) if row.unmovable else "")
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
        return report if report.restart == job.restarts else NO_REPORT

    def _why_late(self, row: JobRow, now: float) -> str:
        until = self._ledger.saves.late_until(row)
        return (
            f"a job of its kind did not save in time: not preempted for another {until - now:.0f} s"
            if now < until
            else ""
        )

    def _why_there(self, job: SlurmJob) -> str:
        if not self.unprotected:
            return ""
        found = next((share.node for share in job.shares if share.node in self.unprotected), "")
        return f"partition {self.unprotected[found]} comes before its own on {found} (PriorityTier)" if found else ""

    def _is_cooling(self, row: JobRow, job: SlurmJob, now: float) -> bool:
        return now - row.last_preempted < self._policy_of(job.partition).cooldown

    def _why_again(self, row: JobRow, job: SlurmJob, now: float) -> str:
        policy = self._policy_of(job.partition)
        if policy.max_preemptions and row.preemptions >= policy.max_preemptions:
            return f"was preempted {row.preemptions} times already (policy.max_preemptions)"
        if self._is_cooling(row, job, now):
            return "was preempted a short while ago (policy.cooldown)"
        wait = self.decision_times.wait(policy.interval)
        return f"preemptions and changes of size are decided again in {wait:.0f} s (policy.interval)" if wait else ""

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
            np.array([self._is_saver(self._ledger.jobs[job.id]) for job in jobs], bool),
        )


def _intervals(config: Config) -> list[float]:
    return [config.policy.interval, *(policy.interval for _, policy in config.partition_policies)]


def _why_never(job: SlurmJob) -> str:
    """Return why Slurm does not requeue a job; "" if it does."""
    if not job.batch:
        return "an srun or salloc allocation cannot be requeued"
    return "" if job.requeue else "submitted with --no-requeue"
