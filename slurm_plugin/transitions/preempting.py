"""The operations of a preemption, with a checkpoint or by a restart from the beginning, and of a renewal.

A victim with a beneficiary also waits for the other victims, before the signal and before the requeue (handover.py).
"""

from __future__ import annotations

import math
from contextlib import suppress

from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.backends.interface import NotRequeueable, NotSignalled, SlurmJob
from tiresias.slurm_plugin.state.intents import COUNTED, Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.job_reasons import Unmovable
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.transitions.endings import Ending
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.transition_context import TransitionContext, is_in_run
from tiresias.slurm_plugin.transitions.transition_engine import STAY, Operations, Result
from tiresias.slurm_plugin.transitions.transition_table import Operation, is_overdue
from tiresias.slurm_plugin.transitions.victim_group import give_up

# by Slurm's submit time of a requeue: its second, as a clock that differs a little shows it
LAUNCH_REFUSED_S = (-1.0, 1.1)
SIGNALS_BEFORE_DEADLINE = 4  # times at most that a job that does not answer is signalled


class Preempting:
    """Holds, signals and requeues a running job."""

    def __init__(self, context: TransitionContext, holds: JobHolds) -> None:
        self._context, self._holds = context, holds

    @property
    def operations(self) -> Operations:
        """The operations of the transition table that this class executes."""
        return {
            Operation.HOLD: self._hold,
            Operation.SIGNAL: self._signal,
            Operation.AWAIT_SAVE: self._await_save,
            Operation.REQUEUE: self._requeue,
            Operation.AWAIT_END: self._await_end,
            Operation.LEAVE_RUNNING: self._leave_running,
        }

    def _hold(self, intent: Intent, now: float) -> Result:
        if (row := self._context.row(intent)) is None:
            return Ending.ENDED_BEFORE_PREEMPTION.end()
        job = self._context.record(intent.id)
        # with priority 0 its owner or an administrator holds it for after this run
        if row.held or job is None or job.priority > 0:
            self._hold_run(row)
        if intent.beneficiary:
            return IntentStep.TURN
        return IntentStep.REQUEUE if self._has_nothing_to_save(intent, row, job) else IntentStep.SIGNAL

    def _hold_run(self, row: JobRow) -> None:
        self._holds.note_hold(row)
        self._context.backend.hold(row.id)

    def _has_nothing_to_save(self, intent: Intent, row: JobRow, job: SlurmJob | None) -> bool:
        """Return whether the run has ended already, or is one of a job that cannot use its size and has made no step."""
        if intent.kind == IntentKind.RENEW:
            return self._context.ledger.is_reopened(row)
        if intent.kind != IntentKind.RESIZE or not row.rigid or job is None:
            return False
        report = self._context.report(job)
        return not (report.restart == intent.restart and report.ready)

    def _signal(self, intent: Intent, now: float) -> Result:
        # the program may have got it, or save for another reason; else the deadline ends this
        with suppress(NotSignalled):
            self._context.backend.signal(intent.id, self._context.config.signal)
        return IntentStep.WAIT

    def _await_save(self, intent: Intent, now: float) -> Result:
        job = self._context.record(intent.id)
        if self._context.row(intent) is None or job is None:
            return Ending.ENDED_IN_PREEMPTION.end()
        if job.restarts > intent.restart or job.completing:
            return IntentStep.DRAIN
        report = self._context.report(job)
        answered = report.restart == intent.restart
        if answered and report.state == "parked":
            self._context.ledger.usage.note(self._context.ledger.jobs[intent.id], intent.restart, save=report.save)
            return _saved(intent)
        if is_overdue(intent, self._context.config, now):
            return self._overdue(intent, report, answered, now)
        silence = self._context.config.deadline / SIGNALS_BEFORE_DEADLINE
        if not (answered and report.state == "saving") and now - intent.stepped >= silence:
            return IntentStep.SIGNAL  # a lost signal is sent again
        return STAY

    def _overdue(self, intent: Intent, report: JobReport, answered: bool, now: float) -> Result:
        """After the deadline a job that is saving and has an older checkpoint is requeued; any other job runs on."""
        row = self._context.ledger.jobs[intent.id]
        has_ended = report.restart > intent.restart or (answered and report.state == "ended")
        if not (has_ended and self._is_forgotten(row, intent)):
            self._context.ledger.saves.note_late(row, now)
        if answered and report.state == "saving" and report.step >= 0:
            return _saved(intent)
        return IntentStep.UNHOLD

    def _is_forgotten(self, row: JobRow, intent: Intent) -> bool:
        """Return whether slurmctld was started after the run: killed, it forgets ends, and shows such runs until nodes register."""
        run = self._context.ledger.runs[row.key].get(intent.restart)
        return run is not None and self._has_booted_since(run.start)

    def _requeue(self, intent: Intent, now: float) -> Result:
        job, row = self._context.fresh(intent.id), self._context.row(intent)
        if not is_in_run(job, intent):
            return IntentStep.DRAIN
        if job and row and job.priority > 0:  # slurmctld was killed and forgot the hold
            self._hold_run(row)
        try:
            self._context.backend.requeue(intent.id)
        except NotRequeueable as error:
            self._holds.mark_unmovable(intent, Unmovable.NOT_REQUEUEABLE, str(error))
            return IntentStep.UNHOLD
        return IntentStep.DRAIN

    def _await_end(self, intent: Intent, now: float) -> Result:
        """Poll less often the longer it takes: a poll costs a call, and finds the end a fifth too late at most."""
        since = now - self._context.drain_polls.get(intent.id, intent.stepped)
        if since < (now - intent.stepped) / 5:
            return STAY
        self._context.drain_polls[intent.id] = now
        job = self._context.fresh(intent.id)
        # a killed slurmctld forgot the requeue: until nodes register, it would show a run without processes
        if is_in_run(job, intent) and self._has_booted_since(intent.stepped):
            return IntentStep.REQUEUE
        return self.released_gpus(intent, job, now)

    def _has_booted_since(self, moment: float) -> bool:
        """Return whether slurmctld was started after a moment, or in its second."""
        return self._context.backend.booted() >= math.floor(moment)

    def released_gpus(self, intent: Intent, job: SlurmJob | None, now: float) -> Result:
        """The end of a preemption whose job has released its GPUs. job: its record; None where Slurm has none."""
        row = self._context.ledger.observe(job) if job else self._context.row(intent)
        if job is None or row is None or row.ended or row.key != intent.key:
            return Ending.ENDED_IN_PREEMPTION.end()
        if job.completing or is_in_run(job, intent) or _may_fail_to_launch(job, intent, now):
            return STAY
        self._context.note_released(intent.id)
        if intent.kind in COUNTED:
            row.preemptions += 1
            row.last_preempted = now
            self._context.ledger.save(row)
        if intent.kind == IntentKind.RESTART:
            return self._ended_without_save(intent, row, job, now)
        if intent.beneficiary:  # else it had saved before the controller signalled it
            self._context.ledger.usage.note(row, intent.restart, pause=round(now - intent.began, 3))
        if intent.kind == IntentKind.ASSIST:
            return IntentStep.YIELDED
        return Ending.PARKED.end(seconds=now - intent.began)

    def _ended_without_save(self, intent: Intent, row: JobRow, job: SlurmJob, now: float) -> Result:
        """The end of a run that the controller ended without a checkpoint: what it did since its last save is done again."""
        run, report = self._context.ledger.runs[row.key].get(intent.restart), self._context.report(job)
        saved = report.saved_at if report.restart == intent.restart else None
        lost = max(run.end - max(run.start, saved or 0.0), 0.0) if run else 0.0
        self._context.ledger.usage.note(row, intent.restart, lost=lost)
        return Ending.RESTARTED.end(seconds=now - intent.began, lost=lost)

    def _leave_running(self, intent: Intent, now: float) -> Result:
        row = self._context.row(intent)
        give_up(self._context, intent, now)  # before this one is over: after a crash the group is found as it is
        if row:
            if not row.unmovable:
                self._holds.mark_unmovable(intent, Unmovable.NOT_SAVED, f"{self._context.config.deadline:g}")
            self._holds.lift(row.id)
        return Ending.NOT_PREEMPTED.end()


def _may_fail_to_launch(job: SlurmJob, intent: Intent, now: float) -> bool:
    """Return whether the job could start again in the second of its requeue.

    Before 26.05 slurmd refuses a launch in the second in which it has killed the last run ("already killed, do not launch batch
    job"), and the job fails (measured on 22.05 and 24.11). A job that was preempted for another one starts later.
    """
    starts_next = not intent.beneficiary and job.state == "PENDING"
    first, last = LAUNCH_REFUSED_S
    return starts_next and first <= now - job.submit_time < last


def _saved(intent: Intent) -> IntentStep:
    return IntentStep.PARKED if intent.beneficiary else IntentStep.REQUEUE
