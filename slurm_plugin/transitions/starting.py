"""The operations of a start. A job that Slurm does not start is held again, at once where Slurm gives a definite reason."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tiresias.slurm_plugin.admission.refusals import is_definite
from tiresias.slurm_plugin.backends.interface import TOP_PRIORITY, JobRefused, RequestChange, SlurmJob
from tiresias.slurm_plugin.comments.waiting_text import is_own_comment
from tiresias.slurm_plugin.state import job_reasons, own_size, own_tasks, part_pins, pins
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep, Notice
from tiresias.slurm_plugin.state.job_reasons import Rigid, Unpinnable
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.ledger import IMPOSSIBLE
from tiresias.slurm_plugin.transitions.delayed_starts import is_delayed
from tiresias.slurm_plugin.transitions.endings import End, Ending
from tiresias.slurm_plugin.transitions.forgotten import forgotten_pin
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.left_to_slurm import LeftToSlurm
from tiresias.slurm_plugin.transitions.transition_context import RUNS, TransitionContext, nodes_in_words
from tiresias.slurm_plugin.transitions.transition_engine import STAY, Operations, Result
from tiresias.slurm_plugin.transitions.transition_table import RELEASING_GPUS, Operation, is_overdue

# reasons for which another node may do. Priority: as where Slurm keeps that node for a job of others
NODES_AT_FAULT = ("ReqNodeNotAvail", "Reservation", "Resources", "Priority", "NodeDown", IMPOSSIBLE)
TEMPORARY = ("node", "busy", "completing")  # words of refusals that do not concern the size of a job
OF_ONE_JOB = (
    "PerJob"  # in Slurm's reasons for limits that a smaller job keeps: QOSMaxGRESPerJob, AssocMaxCpuPerJobLimit
)
IMPOSSIBLE_STARTS = 3  # refused in a row as impossible: then the job is left to Slurm, which may find nodes for it


class Starting:
    """Pins a pending job to its nodes, releases it and waits for Slurm to start it."""

    def __init__(self, context: TransitionContext, holds: JobHolds, left_to_slurm: LeftToSlurm) -> None:
        self._context, self._holds, self._left_to_slurm = context, holds, left_to_slurm

    @property
    def operations(self) -> Operations:
        """The operations of the transition table that this class executes."""
        return {Operation.START: self._start, Operation.CONFIRM: self._confirm, Operation.REHOLD: self._rehold}

    def _start(self, intent: Intent, now: float) -> Result:
        row, job = self._context.row(intent), self._context.fresh(intent.id)
        if row is None or job is None or self._context.ledger.is_another(row, job):
            return Ending.ENDED_BEFORE_START.end()
        if job.state == "PENDING" and (changed := self._changed(intent, job, now)):
            return changed
        if job.state == "PENDING" and not job.completing:
            if (end := self._pinned(intent, row, job, now)) is not None:
                return end
            self._context.backend.lift(intent.id)
            self._holds.note_release(row)
        return IntentStep.PRIORITIZE if intent.beneficiary else IntentStep.CONFIRM

    def _changed(self, intent: Intent, job: SlurmJob, now: float) -> End | None:
        """Return the end of a start whose waiting job has changed since the snapshot, so that it must not start as decided."""
        if not self._context.ledger.free(job):
            return self._blocked(intent)
        if not self._context.has_begun(job, now):
            return Ending.BEGINS_LATER.end()
        seen = self._context.record(intent.id) or job
        has_moved = (seen.account, seen.qos) != (job.account, job.qos)
        if has_moved and intent.cells:  # these may be of another virtual cluster
            return Ending.MOVED.end(account=seen.account, qos=seen.qos)
        return None

    def _blocked(self, intent: Intent) -> End:
        """Until the next snapshot the records show the job without what blocks it: no hold may meet it."""
        self._context.blocked.add(intent.id)
        return Ending.BLOCKED.end()

    def _pinned(self, intent: Intent, row: JobRow, job: SlurmJob, now: float) -> Result | None:
        """Pin the job in a way that changes nothing else of its request; the end of the start where it cannot be pinned."""
        if row.unpinnable:  # found by a controller that was killed before it could act on it
            return self._leave_to_slurm(row, row.unpinnable)
        own, kept = self._own_request(intent, row, job)
        ways = pins.ways(own, len(intent.nodes), job.tasks, self._hides_limit(row, own))
        servers = _servers(intent, row, own)
        if own_size.is_other(row, own, intent.nodes, servers):
            sized = own_size.resized(own, intent.nodes, own_size.server_counts(row), servers)
            return self._resized(intent, row, job, sized, kept, now)
        if changed := self._changed_by_all(ways, intent, row, job, own, kept, now):
            return self._leave_to_slurm(row, job_reasons.stored(Unpinnable.PINS_CHANGE_REQUEST, changed))
        return None

    def _hides_limit(self, row: JobRow, own: SlurmJob) -> bool:
        """Return whether the record of a job may lack the most nodes that its owner requested. So a pin must not set them.

        slurmctld shows 0 for them from its start on, whatever it keeps to (measured on 24.11 and 26.05). 22.05.8 does so after
        each run as well (measured): where Slurm itself started the first one, no record of the waiting job may have been seen.
        """
        is_met_late = bool(own.restarts) and pins.way(row) in ("", pins.ONLY)
        return not own.max_nodes and (is_met_late or self._context.backend.booted() >= own.submit_time)

    def _resized(
        self, intent: Intent, row: JobRow, job: SlurmJob, own: SlurmJob, kept: dict[str, Any], now: float
    ) -> Result | None:
        """Pin the job with another size; where Slurm does not accept that, it keeps its own. own: with the request of the size."""
        try:
            changed = self._changed_by_all((pins.SIZE,), intent, row, job, own, own_size.kept_at(own, kept), now)
        except JobRefused as error:
            if any(word in str(error).lower() for word in TEMPORARY):
                raise
            why = str(error).removeprefix(f"job {row.id}: ").removesuffix(f" for job {row.id}")
            self._keep_size(row, own.gpus, why)
            self._holds.unpin(row.id)  # Slurm may have made a part of the change
        else:
            if not changed:
                return None
            self._keep_size(row, own.gpus, f"it changed {changed}")
        return Ending.NOT_RESIZED.end(why=job_reasons.text(row.rigid))

    def _keep_size(self, row: JobRow, gpus: int, why: str) -> None:
        self._context.ledger.requests.fix_size(row, job_reasons.stored(Rigid.SIZE_REFUSED, gpus, why))

    def _changed_by_all(
        self, ways: Sequence[str], intent: Intent, row: JobRow, job: SlurmJob, own: SlurmJob, kept: dict[str, Any], now: float
    ) -> str:  # fmt: skip
        """Pin the job in the first way that changes nothing else; "", or what the last one changed."""
        nodes, changed = [node for node, _ in intent.nodes], ""
        stated = own_tasks.stated_gpus(row)
        if pins.SIZE in ways:
            stated = own_size.stated_at(stated, own.gpus)
        typed = part_pins.with_types(stated, intent.parts, self._context.part_types)
        for way in ways:
            row.pinned, row.pin = True, way + (pins.TYPED if typed else "")
            self._context.ledger.save(row)
            self._pin(job, pins.pin(own, way, nodes, typed, own_size.server_counts(row) is not None))
            found = self._context.fresh(intent.id)
            changed = pins.changes(kept, found, bool(typed)) if found and found.state == "PENDING" else ""
            if not changed:
                return ""
            self._context.add_news(now, intent.id, Notice.PIN_TAKEN_BACK, f"it changed {changed}")
            self._holds.unpin(intent.id)
        return changed

    def _pin(self, job: SlurmJob, change: RequestChange) -> None:
        """Pin, and remove the controller's comment in the same call. job: as it was read just before."""
        field = self._context.comment_field
        if field and is_own_comment(job.comments.of(field)):
            with suppress(JobRefused):  # the comment must not keep the job from starting
                return self._context.backend.pin(job.id, replace(change, uncommented=(field,)))
        return self._context.backend.pin(job.id, change)

    def _own_request(self, intent: Intent, row: JobRow, job: SlurmJob) -> tuple[SlurmJob, dict[str, Any]]:
        """The job as it was before any pin, and what a pin must keep of it. A controller that continues the start of another one
        finds both in the journal."""
        kept = pins.noted(row, intent)
        if kept is None:
            # slurmctld may have been killed since the snapshot
            pin = row.pin if row.pinned else forgotten_pin(self._context, row, job)
            if pin is not None:
                row.pin = pin
                self._holds.unpin(intent.id)
                job = self._context.fresh(intent.id) or job
            job = own_tasks.restored(row, job)
            if intent.parts:
                job = replace(job, stated_gpus=self._context.backend.stated_gpus(job.id))
            if not own_tasks.is_elastic(row):
                self._context.ledger.requests.adopt(row, job)
            row.asked = pins.note(job, intent)
            self._context.ledger.save(row)
            kept = pins.noted(row, intent) or {}
        return replace(job, **kept, min_nodes=row.min_nodes, max_nodes=row.max_nodes), kept

    def _leave_to_slurm(self, row: JobRow, why: str) -> Result:
        self._left_to_slurm.leave(row, why)
        return Ending.LEFT_TO_SLURM.end(why=job_reasons.text(why))

    def _confirm(self, intent: Intent, now: float) -> Result:
        job = self._context.record(intent.id)
        if self._context.row(intent) is None or job is None:
            return Ending.ENDED_AT_ONCE.end()
        if job.state == "RUNNING" or job.restarts > intent.restart or job.completing:
            return self._confirmed(intent, job, now)
        if self._victims_drain(intent):
            intent.stepped = now  # the time limit counts from the moment at which they have released its GPUs
        waited = now - intent.stepped
        answered = self._context.asked_at > intent.stepped
        if (answered and is_definite(job.reason, waited)) or is_overdue(intent, self._context.config, now):
            return IntentStep.REHOLD
        # waited > 0: once a pass, also where the clock was set back after the snapshot
        if answered and waited > 0 and is_delayed(intent, job, self._context.planned, waited):
            why = "a job that Slurm ranks before it must not delay a start in cells of its virtual cluster"
            self._context.add_news(now, intent.id, Notice.FIRST, why)
            return IntentStep.PRIORITIZE
        return STAY

    def _victims_drain(self, intent: Intent) -> bool:
        """Whether a job that is being preempted still has GPUs of these nodes."""
        nodes = {node for node, _ in intent.nodes}
        others = (one for one in self._context.intents.values() if one.kind != IntentKind.START)
        draining = [one for one in others if one.step in RELEASING_GPUS]
        return any(node in nodes for one in draining for node, _ in one.nodes)

    def _confirmed(self, intent: Intent, job: SlurmJob, now: float) -> Result:
        row = self._context.ledger.jobs[intent.id]
        row.failures, row.not_before = 0, 0.0
        self._context.refusals.started(job)
        if job.state == "RUNNING" and job.priority == TOP_PRIORITY:
            self._holds.attempt(self._context.backend.lift, row.id, now)
        # A controller that was killed right after the release could not journal it.
        row.held = row.held and job.priority == 0
        self._context.ledger.save(row)
        got = tuple((share.node, share.gpus) for share in job.shares)
        elsewhere = bool(got) and {node for node, _ in got} != {node for node, _ in intent.nodes}
        self._context.ledger.note_cells(row, job, "" if elsewhere else intent.cells)
        differs = (
            "" if not got or set(got) == set(intent.nodes) else f", not on {nodes_in_words(intent.nodes)} as planned"
        )
        servers = f" with {count} servers" if (count := own_size.servers(row, job)) else ""
        return Ending.RUNNING.end(nodes=nodes_in_words(got) + servers + differs)

    def _rehold(self, intent: Intent, now: float) -> Result:
        row, job = self._context.row(intent), self._context.fresh(intent.id)
        if row is None or job is None:
            return Ending.ENDED_BEFORE_START.end()
        if job.state == "PENDING" and not self._context.ledger.free(job):
            return self._blocked(intent)
        if job.state == "PENDING":
            self._holds.note_hold(row)
            self._context.backend.hold(intent.id)
            job = self._context.fresh(intent.id) or job
        if job.state in RUNS or job.completing:  # it started between the two polls
            self._holds.lift(row.id)
            self._context.started.add(row.id)
            return self._confirmed(intent, job, now)
        if job.state != "PENDING":
            return Ending.ENDED_AT_ONCE.end()
        refused = self._context.record(intent.id) or job
        reason = refused.reason
        nodes = [node for node, _ in intent.nodes]
        self._holds.back_off(row, now, nodes if reason.startswith(NODES_AT_FAULT) else ())
        self._context.refusals.note(refused, reason, now)
        if pins.way(row) == pins.SIZE and OF_ONE_JOB in reason:
            self._keep_size(row, sum(gpus for _, gpus in intent.nodes), reason)
        if reason.startswith(IMPOSSIBLE) and row.failures >= IMPOSSIBLE_STARTS:
            return self._leave_to_slurm(row, job_reasons.stored(Unpinnable.IMPOSSIBLE_STARTS, row.failures, reason))
        return Ending.NOT_STARTED.end(reason=reason, seconds=row.not_before - now)


def _servers(intent: Intent, row: JobRow, own: SlurmJob) -> int:
    """Return the parameter servers of a start; of one that was planned by an earlier release those in proportion to its GPUs."""
    sizes = own_size.sizes(row)
    if sizes is None or intent.servers:
        return intent.servers
    return own_size.servers_in_proportion(sizes, own, sum(gpus for _, gpus in intent.nodes))
