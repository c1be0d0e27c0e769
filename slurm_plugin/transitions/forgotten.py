"""Finds what a killed slurmctld forgot: releases and unpins that the controller made, and ends of runs that it shows again."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state import pins
from tiresias.slurm_plugin.state.intents import IntentKind
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.transition_context import TransitionContext

SAVED_WITHIN_S = 60.0  # slurmctld saves a changed job every five seconds
REGISTERED_WITHIN_S = 10.0  # of a start of slurmctld: nodes register, and end runs that it does not have there


class ForgottenChanges:
    """Compares new records with the journal."""

    def __init__(self, context: TransitionContext, holds: JobHolds) -> None:
        self._context, self._holds = context, holds

    def find_releases(self, jobs: Iterable[SlurmJob]) -> None:
        """Take back holds that look like an administrator's and are the controller's own.

        A start is two calls, a pin and a release. A slurmctld that was killed when it had saved the first alone, or neither, shows
        the controller's hold; so does one that forgot the release of a job whose preemption was given up. An administrator may
        have placed it; where slurmctld was started after the release, and shows no run after it, the controller more likely did.
        """
        for job in jobs:
            with self._context.quarantine.guard("looking for a forgotten release", job.id):
                row = self._context.ledger.jobs[job.id]
                suspicious = job.held_by_admin and not job.completing and not row.held
                if suspicious and self._forgot_release(row, job):
                    self._holds.note_hold(row)

    def find_unpins(self) -> None:
        """A killed slurmctld may show a pin that was taken off; else the job's owner requests those nodes again."""
        for job in self._context.ledger.resurfaced:
            with self._context.quarantine.guard("looking for a forgotten unpin", job.id):
                row = self._context.ledger.jobs[job.id]
                if (pin := forgotten_pin(self._context, row, job)) is not None:
                    row.pinned, row.pin = True, pin
                    self._context.ledger.save(row)
                else:
                    self._context.ledger.requests.adopt(row, job)

    def has_ended(self, job: SlurmJob, report: JobReport, now: float) -> bool:
        """Return whether a run that slurmctld shows again, as it was killed and forgot its end, has really ended.

        It had saved and waited for its requeue, or a later run reported. That one is ended by its node first.
        """
        if not self._context.ledger.is_reopened(self._context.ledger.jobs[job.id]):
            return False
        if report.restart == job.restarts:
            return report.state == "parked"
        return report.restart > job.restarts and now - self._context.backend.booted() >= REGISTERED_WITHIN_S

    def _forgot_release(self, row: JobRow, job: SlurmJob) -> bool:
        """The record may be older than a requeue, or than the job's end: then the ledger takes it for a new job."""
        released = self._context.journal.releases_of(job.id)
        released = [one for one in released if one.key == row.key or one.began >= job.submit_time - 1]
        if not released:
            return False
        given_up = released[0].kind != IntentKind.START  # that job is pending after the run that it was in
        if released[0].restart + given_up < job.restarts:
            return False
        starts = [[node for node, _ in one.nodes] for one in released if one.kind == IntentKind.START]
        cluster = [node.name for node in self._context.ledger.requests.cluster]
        if row.pinned and all(pins.shown(row, job, nodes, cluster) is None for nodes in starts):
            return False
        return self._context.backend.booted() >= math.floor(released[0].began)  # in whole seconds


def forgotten_pin(context: TransitionContext, row: JobRow, job: SlurmJob) -> str | None:
    """Return the pin of the controller, as in JobRow.pin, that was removed before slurmctld was killed and is in the record again.

    slurmctld was started after that start was decided; of an earlier start than the newest one, not much later than the next one,
    or a moment ago: a slurmctld that was killed before that may have forgotten the next ones.
    """
    starts = context.ledger.requests.starts_shown(row, job)
    booted = context.backend.booted() if starts else 0.0
    has_just_booted = 0 <= context.asked_at - booted <= SAVED_WITHIN_S
    for one in starts:
        is_in_time = has_just_booted or booted <= one.replaced + SAVED_WITHIN_S
        if math.floor(one.began) <= booted and is_in_time:
            return one.pin
    return None
