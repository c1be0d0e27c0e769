"""A start: start -> confirm; confirm -> rehold when Slurm does not start the job, at once where it gives a definite reason."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tiresias.slurm_plugin.admission.refusals import is_definite
from tiresias.slurm_plugin.backends.protocol import TOP_PRIORITY, JobRefused, RequestChange, SlurmJob
from tiresias.slurm_plugin.comments.waiting_text import is_ours
from tiresias.slurm_plugin.moves.hands import Hands
from tiresias.slurm_plugin.state import own_tasks, pins
from tiresias.slurm_plugin.state.journal import Intent, JobRow
from tiresias.slurm_plugin.state.ledger import IMPOSSIBLE, Avoided

START = "start"
# reasons for which another node may do. Priority: as where Slurm keeps that node for a job of others
NODES_AT_FAULT = ("ReqNodeNotAvail", "Reservation", "Resources", "Priority", "NodeDown", IMPOSSIBLE)
IMPOSSIBLE_STARTS = 3  # refused in a row as impossible: then the job is left to Slurm, which may find nodes for it
LATER = "not started: its owner set a later begin time"
HELD_BY_OTHERS = "not started: it is held by others, or depends on others, by now"


class Starting(Hands):
    """Each step says whether the next one may follow at once."""

    def _start(self, intent: Intent, now: float) -> bool:
        row, job = self._row(intent), self._fresh(intent.id)
        if row is None or job is None:
            return self._finish(intent, "ended: before it was started", now)
        if job.state == "PENDING" and not self._ledger.free(job):
            return self._finish(intent, HELD_BY_OTHERS, now)
        if job.state == "PENDING" and not self.has_begun(job, now):  # changed since the snapshot
            return self._finish(intent, LATER, now)
        if job.state == "PENDING" and not job.completing:
            if changed := self._pinned(intent, row, job, now):
                return self._leave_to_slurm(intent, row, changed, now)
            self._backend.lift(intent.id)
            self._remember_release(row)
        return self._next(intent, "prioritize" if intent.beneficiary else "confirm", now)

    def _pinned(self, intent: Intent, row: JobRow, job: SlurmJob, now: float) -> str:
        """Pin the job in a way that changes nothing else of its request; "" or why it cannot be pinned."""
        if row.unpinnable:  # found by a life that ended before it could act on it
            return row.unpinnable
        own, kept = self._own_request(intent, row, job)
        nodes, changed = [node for node, _ in intent.nodes], ""
        for way in pins.ways(own, len(nodes), job.tasks):
            row.pinned, row.pin = True, way
            self._ledger.save(row)
            self._pin(job, pins.pin(own, way, nodes))
            found = self._fresh(intent.id)
            changed = pins.changes(kept, found) if found and found.state == "PENDING" else ""
            if not changed:
                return ""
            self._say(now, intent.id, "pin taken back", f"it changed {changed}")
            self._unpin(intent.id)
        return f"every pin to nodes changes its request: {changed}"

    def _pin(self, job: SlurmJob, change: RequestChange) -> None:
        """Removes our comment in the same call. job: as it was read just before."""
        field = self.comment_field
        if field and is_ours(job.comments.of(field)):
            with suppress(JobRefused):  # the comment must not keep the job from starting
                return self._backend.pin(job.id, replace(change, uncommented=(field,)))
        return self._backend.pin(job.id, change)

    def _own_request(self, intent: Intent, row: JobRow, job: SlurmJob) -> tuple[SlurmJob, dict[str, Any]]:
        """The job as it was before any pin, and what a pin must keep of it. A life that goes on with a start of another life finds
        both in the journal."""
        kept = pins.noted(row, intent)
        if kept is None:
            if row.pinned:
                self._unpin(intent.id)
                job = self._fresh(intent.id) or job
            job = own_tasks.restored(row, job)
            row.asked = pins.note(job, intent)
            self._ledger.adopt_wishes(row, job)
            kept = pins.noted(row, intent) or {}
        return replace(job, **kept, min_nodes=row.min_nodes, max_nodes=row.max_nodes), kept

    def _leave_to_slurm(self, intent: Intent, row: JobRow, why: str, now: float) -> bool:
        row.unpinnable = why
        self._ledger.save(row)
        if row.pinned:
            self._unpin(intent.id)
        self._lift(intent.id)
        return self._finish(intent, f"left to Slurm: {why}", now)

    def release_unpinnable(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Jobs that are left to Slurm, and wait again after a preemption, are released again. So are those without any plan."""
        for job in jobs:
            row = self._ledger.jobs.get(job.id)
            waits = job.state == "PENDING" and not job.completing
            if row and row.held and waits and 0 < job.gpus < job.min_nodes and not row.unpinnable:
                self._leave_unplanned(row, job, now)
            if (
                row
                and row.unpinnable
                and row.held
                and job.held_by_admin
                and job.id not in self.intents
                and not job.completing
            ):
                self._try(self._lift, job.id, now)

    def _leave_unplanned(self, row: JobRow, job: SlurmJob, now: float) -> None:
        """The hold may be newer than the record; a held job's begin time is the hook's."""
        row.unpinnable = f"it requests fewer GPUs ({job.gpus}) than nodes ({job.min_nodes})"
        self._ledger.save(row)
        self._try(self._backend.begin_now, job.id, now)
        self._try(self._lift, job.id, now)
        self._say(now, job.id, "left to Slurm", row.unpinnable)

    @property
    def alarms(self) -> list[str]:
        rows = [row for row in self._ledger.jobs.values() if row.unpinnable]
        return [f"job {row.id}: left to Slurm, because {row.unpinnable}" for row in rows]

    def _confirm(self, intent: Intent, now: float) -> bool:
        job = self._record(intent.id)
        if self._row(intent) is None or job is None:
            return self._finish(intent, "ended: at once", now)
        if job.state == "RUNNING" or job.restarts > intent.restart or job.completing:
            return self._confirmed(intent, job, now)
        if self._victims_drain(intent):
            intent.stepped = now  # the wait for Slurm begins when they have released its GPUs
        waited = now - intent.stepped
        answered = self._seen_at > intent.stepped and is_definite(job.reason, waited)
        if answered or waited >= self._config.start_timeout:
            return self._next(intent, "rehold", now)
        return False

    def _victims_drain(self, intent: Intent) -> bool:
        nodes = {node for node, _ in intent.nodes}
        moves = [one for one in self.intents.values() if one.kind != START and one.step in ("requeue", "drain")]
        return any(node in nodes for one in moves for node, _ in one.nodes)

    def _confirmed(self, intent: Intent, job: SlurmJob, now: float) -> bool:
        row = self._ledger.jobs[intent.id]
        row.failures, row.not_before = 0, 0.0
        self._refusals.started(job)
        if job.state == "RUNNING" and job.priority == TOP_PRIORITY:
            self._try(self._backend.lift, row.id, now)
        # A life that ended right after the release did not come to write that down.
        row.held = row.held and job.priority == 0
        self._ledger.save(row)
        got = tuple((share.node, share.gpus) for share in job.shares)
        wanted = ", ".join(f"{node}:{gpus}" for node, gpus in intent.nodes)
        differs = "" if not got or set(got) == set(intent.nodes) else f", not on {wanted} as planned"
        return self._finish(intent, f"running: on {', '.join(f'{node}:{gpus}' for node, gpus in got)}{differs}", now)

    def _rehold(self, intent: Intent, now: float) -> bool:
        row, job = self._row(intent), self._fresh(intent.id)
        if row is None or job is None:
            return self._finish(intent, "ended: before it was started", now)
        if job.state == "PENDING" and not self._ledger.free(job):
            return self._finish(intent, HELD_BY_OTHERS, now)
        if job.state == "PENDING":
            self._remember_hold(row)
            self._backend.hold(intent.id)
            job = self._fresh(intent.id) or job
        if job.state != "PENDING":  # it started between the two looks
            self._lift(row.id)
            return self._confirmed(intent, job, now)
        self._back_off(row, now)
        refused = self._record(intent.id) or job
        reason = refused.reason
        self._refusals.note(refused, reason, now)
        if reason.startswith(IMPOSSIBLE) and row.failures >= IMPOSSIBLE_STARTS:
            return self._leave_to_slurm(intent, row, f"Slurm refused {row.failures} starts: {reason}", now)
        if reason.startswith(NODES_AT_FAULT):
            nodes = frozenset(node for node, _ in intent.nodes)
            self._ledger.avoids[row.id] = Avoided(nodes, 2 * row.not_before - now)
        return self._finish(
            intent, f"not started: Slurm says {reason}; tried again in {row.not_before - now:.0f} s", now
        )
