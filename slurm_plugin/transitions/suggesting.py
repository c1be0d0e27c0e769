"""Pins in mode assist: a beneficiary that is to be consolidated starts on the nodes on which jobs are preempted for it.

The pin excludes all other nodes. The job is not held for it: Slurm refuses to change the excluded nodes of a running job, while
required nodes would shrink one. So the job keeps its place in Slurm's order, and while it waits for these nodes, Slurm's main
scheduler starts no later job of its partition. Where Slurm has not started it within `preemption.start_timeout` after the preempted
jobs have released their GPUs, the pin is removed, and it may start on any nodes that its owner allows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmJob
from tiresias.slurm_plugin.state import own_tasks, pins
from tiresias.slurm_plugin.state.intents import Intent, IntentStep
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.transitions.endings import Ending
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.transition_context import RUNS, TransitionContext, nodes_in_words
from tiresias.slurm_plugin.transitions.transition_engine import STAY, Operations, Result
from tiresias.slurm_plugin.transitions.transition_table import Operation, is_overdue
from tiresias.slurm_plugin.transitions.victim_group import still_release


class Suggesting:
    """Pins a pending job that is not held, and removes the pin of one that Slurm does not start."""

    def __init__(self, context: TransitionContext, holds: JobHolds) -> None:
        self._context, self._holds = context, holds

    @property
    def operations(self) -> Operations:
        """The operations of the transition table that this class executes."""
        return {
            Operation.SUGGEST: self._suggest,
            Operation.AWAIT_START: self._await_start,
            Operation.TAKE_BACK: self._take_back,
        }

    def _suggest(self, intent: Intent, now: float) -> Result:
        row, job = self._context.row(intent), self._context.fresh(intent.id)
        if row is None or job is None:
            return Ending.ENDED_BEFORE_START.end()
        if job.state != "PENDING" or job.completing:
            return IntentStep.CONFIRM
        if not self._context.ledger.free(job):
            return Ending.BLOCKED.end()
        if _is_changed_by_pin(row, job) or not self._pinned(intent, row, job):
            return Ending.NOT_SUGGESTED.end()
        return IntentStep.CONFIRM

    def _pinned(self, intent: Intent, row: JobRow, job: SlurmJob) -> bool:
        """Pin the job, with its row as the journal of the pin; False where that changed more, and was taken back."""
        if not row.pinned:  # else a controller that was killed may have pinned it
            self._context.ledger.requests.adopt(row, job)
            row.pinned, row.pin, row.asked = True, pins.ONLY, own_tasks.write(job)
            self._context.ledger.save(row)
        pin = pins.pin(job, pins.ONLY, [node for node, _ in intent.nodes])
        self._context.backend.pin(intent.id, replace(pin, begins_now=False))
        found = self._context.fresh(intent.id)
        if not found or found.state != "PENDING" or not pins.changes(own_tasks.read(row), found):
            return True
        self._holds.unpin(intent.id)
        return False

    def _await_start(self, intent: Intent, now: float) -> Result:
        row, job = self._context.row(intent), self._context.record(intent.id)
        if row is None or job is None:
            return Ending.ENDED_AT_ONCE.end()
        if job.state in RUNS or job.restarts > intent.restart or job.completing:
            return self._started(intent, job)
        if still_release(self._context, intent.id):
            intent.stepped = now  # the time limit counts from the moment at which all of them have released their GPUs
        is_over = is_overdue(intent, self._context.config, now) or not self._context.ledger.free(job)
        return IntentStep.PINNED if is_over else STAY

    def _started(self, intent: Intent, job: SlurmJob) -> Result:
        got = tuple((share.node, share.gpus) for share in job.shares)
        return Ending.RUNNING.end(nodes=nodes_in_words(got or intent.nodes))

    def _take_back(self, intent: Intent, now: float) -> Result:
        row, job = self._context.row(intent), self._context.fresh(intent.id)
        if row is None or job is None:
            return Ending.ENDED_BEFORE_START.end()
        if job.state == "PENDING" and row.pinned:
            with suppress(JobRefused):  # it has just started
                self._holds.unpin(intent.id)
                return Ending.NOT_THERE.end(nodes=nodes_in_words(intent.nodes))
            job = self._context.fresh(intent.id) or job
        return self._started(intent, job)


def _is_changed_by_pin(row: JobRow, job: SlurmJob) -> bool:
    """Whether a pin to nodes may change more than these, or whether another one is to be removed first."""
    return own_tasks.is_at_risk(job) or own_tasks.is_elastic(row) or (row.pinned and not pins.is_of_pending_job(row))
