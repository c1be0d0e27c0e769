"""The operation that ends a preemption of mode assist: the preempted job stays held until Slurm has started the beneficiary.

Slurm ranks the beneficiary before all other waiting jobs of these nodes; only the preempted job itself could rank before it. So it
is held, and released once the beneficiary runs or can no longer start. Where Slurm has not started the beneficiary within
`preemption.start_timeout`, the preempted job is released as well, and no job is preempted for that beneficiary during a back-off,
which doubles with each failure.
"""

from __future__ import annotations

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.observation.job_phases import settled_at
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.transitions.endings import End, Ending
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.transition_context import TransitionContext
from tiresias.slurm_plugin.transitions.transition_engine import STAY, Operations, Result
from tiresias.slurm_plugin.transitions.transition_table import Operation, is_overdue
from tiresias.slurm_plugin.transitions.victim_group import still_release


class Assisting:
    """Releases a preempted job after the start of its beneficiary."""

    def __init__(self, context: TransitionContext, holds: JobHolds) -> None:
        self._context, self._holds = context, holds

    @property
    def operations(self) -> Operations:
        """The operation of the transition table that this class executes."""
        return {Operation.AWAIT_BENEFICIARY: self._await_beneficiary}

    def _await_beneficiary(self, intent: Intent, now: float) -> Result:
        row, job = self._context.row(intent), self._context.record(intent.id)
        if row is None or job is None:
            return Ending.ENDED_BEFORE_START.end()
        if job.state == "PENDING" and now < settled_at(job, now):
            return STAY
        if (end := self._end(intent, now)) is not None:
            self._holds.attempt(self._holds.lift, row.id, now)
        return end or STAY

    def _end(self, intent: Intent, now: float) -> End | None:
        """Return the end where the job need not wait any longer; None while it waits."""
        row, job = self._context.ledger.jobs.get(intent.beneficiary), self._context.record(intent.beneficiary)
        seconds = now - intent.began
        if row is None or job is None or not self._context.ledger.free(job):
            return Ending.PARKED.end(seconds=seconds)
        if job.state != "PENDING" or job.completing:
            return self._runs(row, job, seconds)
        if still_release(self._context, intent.beneficiary):
            intent.stepped = now  # the time limit counts from the moment at which all of them have released their GPUs
        return self._in_vain(row, seconds, now) if is_overdue(intent, self._context.config, now) else None

    def _runs(self, row: JobRow, job: SlurmJob, seconds: float) -> End:
        if row.failures:
            row.failures, row.not_before = 0, 0.0
            self._context.ledger.save(row)
        return Ending.PARKED_BEFORE_START.end(seconds=seconds, beneficiary=job.id)

    def _in_vain(self, row: JobRow, seconds: float, now: float) -> End:
        if row.not_before <= now:  # else another one of these victims has noted it
            self._holds.back_off(row, now)
        return Ending.PARKED_IN_VAIN.end(seconds=seconds, beneficiary=row.id, backoff=row.not_before - now)
