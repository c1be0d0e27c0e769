"""Jobs that are left to Slurm: those whose request every pin would change, and those without any possible plan."""

from __future__ import annotations

from collections.abc import Iterable

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state import job_reasons
from tiresias.slurm_plugin.state.intents import IntentOutcome
from tiresias.slurm_plugin.state.job_reasons import Unpinnable
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.transition_context import TransitionContext


class LeftToSlurm:
    """Releases them without a pin, and reports them."""

    def __init__(self, context: TransitionContext, holds: JobHolds) -> None:
        self._context, self._holds = context, holds

    def leave(self, row: JobRow, why: str) -> None:
        """Release a job of the controller for good, until its owner changes the request. why: as `job_reasons.stored`."""
        row.unpinnable = why
        self._context.ledger.save(row)
        if row.pinned:
            self._holds.unpin(row.id)
        self._holds.lift(row.id)

    def release_again(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Release those that are pending again after a preemption, and jobs without any possible plan."""
        for job in jobs:
            row = self._context.ledger.jobs.get(job.id)
            if row is None:
                continue
            pending = job.state == "PENDING" and not job.completing
            if row.held and pending and 0 < job.gpus < job.min_nodes and not row.unpinnable:
                self._leave_unplanned(row, job, now)
            if row.unpinnable and row.held and job.held_by_admin and not self._is_busy(job):
                self._holds.attempt(self._holds.lift, job.id, now)

    def _is_busy(self, job: SlurmJob) -> bool:
        return job.id in self._context.intents or job.completing

    def _leave_unplanned(self, row: JobRow, job: SlurmJob, now: float) -> None:
        """The hold may be newer than the record; a held job's begin time is the hook's."""
        row.unpinnable = job_reasons.stored(Unpinnable.FEWER_GPUS_THAN_NODES, job.gpus, job.min_nodes)
        self._context.ledger.save(row)
        self._holds.attempt(self._context.backend.begin_now, job.id, now)
        self._holds.attempt(self._holds.lift, job.id, now)
        self._context.add_news(now, job.id, IntentOutcome.LEFT_TO_SLURM, job_reasons.text(row.unpinnable))

    @property
    def alarms(self) -> list[str]:
        """The jobs that are left to Slurm, one line each."""
        rows = [row for row in self._context.ledger.jobs.values() if row.unpinnable]
        return [f"job {row.id}: left to Slurm, because {job_reasons.text(row.unpinnable)}" for row in rows]
