"""The preemption contract: hold -> signal -> wait -> requeue -> drain; wait -> unhold when the job cannot save.

A victim with a beneficiary also waits for the other victims, before the signal and before the requeue (handover.py).
"""

from __future__ import annotations

from collections.abc import Callable

from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.backends.protocol import NotRequeueable, SlurmJob
from tiresias.slurm_plugin.moves.hands import Hands, is_in_run
from tiresias.slurm_plugin.state.journal import Intent

PREEMPT, RENEW = "preempt", "renew"

ReadReport = Callable[[SlurmJob], JobReport]


class Preempting(Hands):
    """Each step says whether the next one may follow at once."""

    _report: ReadReport
    _give_up: Callable[[Intent, float], None]

    def _hold(self, intent: Intent, now: float) -> bool:
        if (row := self._row(intent)) is None:
            return self._finish(intent, "ended: before it was preempted", now)
        job = self._record(intent.id)
        if row.held or job is None or job.priority > 0:  # else somebody else holds it for after this run, and shall
            self._remember_hold(row)
            self._backend.hold(intent.id)
        return self._next(intent, "turn" if intent.beneficiary else "signal", now)

    def _signal(self, intent: Intent, now: float) -> bool:
        self._backend.signal(intent.id, self._config.signal)
        return self._next(intent, "wait", now)

    def _wait(self, intent: Intent, now: float) -> bool:
        job = self._record(intent.id)
        if self._row(intent) is None or job is None:
            return self._finish(intent, "ended: while it was being preempted", now)
        if job.restarts > intent.restart or job.completing:
            return self._next(intent, "drain", now)
        report = self._report(job)
        heard = report.restart == intent.restart
        if heard and report.state == "parked":
            self._ledger.note(self._ledger.jobs[intent.id], intent.restart, save=report.save)
            return self._next(intent, "parked" if intent.beneficiary else "requeue", now)
        if now - intent.began >= self._config.deadline:
            return self._overdue(intent, report, heard, now)
        if not (heard and report.state == "saving") and now - intent.stepped >= self._config.deadline / 4:
            return self._next(intent, "signal", now)  # a lost signal is sent again
        return False

    def _overdue(self, intent: Intent, report: JobReport, heard: bool, now: float) -> bool:
        """The deadline passed. A job that was saving and has an older checkpoint goes back to that; others run on."""
        self._ledger.note_late(self._ledger.jobs[intent.id], now)
        if heard and report.state == "saving" and report.step >= 0:
            return self._next(intent, "parked" if intent.beneficiary else "requeue", now)
        return self._next(intent, "unhold", now)

    def _requeue(self, intent: Intent, now: float) -> bool:
        if is_in_run(self._fresh(intent.id), intent):
            try:
                self._backend.requeue(intent.id)
            except NotRequeueable as error:
                self._mark_unmovable(intent, str(error))
                return self._next(intent, "unhold", now)
        return self._next(intent, "drain", now)

    def _drain(self, intent: Intent, now: float) -> bool:
        """The longer it takes, the rarer is a look: it costs a call and comes a fifth too late at most."""
        since = now - self._looked.get(intent.id, intent.stepped)
        if since < (now - intent.stepped) / 5:
            return False
        self._looked[intent.id] = now
        return self._drained(intent, self._fresh(intent.id), now)

    def _drained(self, intent: Intent, job: SlurmJob | None, now: float) -> bool:
        row = self._ledger.observe(job) if job else self._row(intent)
        if job is None or row is None or row.ended or row.key != intent.key:
            return self._finish(intent, "ended: while it was being preempted", now)
        if job.completing or is_in_run(job, intent):
            return False
        if intent.kind == PREEMPT:
            row.preemptions += 1
            row.last_preempted = now
            self._ledger.save(row)
        if intent.beneficiary:  # else it had saved before we came
            self._ledger.note(row, intent.restart, pause=round(now - intent.began, 3))
        return self._finish(intent, f"parked: {now - intent.began:.2f} s after the decision", now)

    def _unhold(self, intent: Intent, now: float) -> bool:
        row = self._row(intent)
        self._give_up(intent, now)  # before this one is over: a later life finds the group as it is
        if row:
            if not row.unmovable:
                self._mark_unmovable(intent, f"did not save within {self._config.deadline:g} s of the signal")
            self._lift(row.id)
        return self._finish(intent, "left running: it could not be preempted", now)
