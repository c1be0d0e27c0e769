"""Carries a plan out: the preemption contract and the start, as two small machines over journaled steps.

    preempt:  hold -> signal -> wait -> requeue -> drain     (wait -> unhold when the job cannot save)
    renew:    the same, of a job that saved by itself because its time limit was near: no preemption
    start:    start -> confirm                               (confirm -> rehold when Slurm does not start it)

A step is journaled before it is done and every step may be done again: after a crash each open intent goes on from
the step that was written last. When Slurm does not answer, the intent stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from tiresias.checkpoint.control import JobReport
from tiresias.scheduler.model import Plan, Preemption
from tiresias.slurm_plugin.backends.protocol import (
    Backend,
    JobRefused,
    NoSuchJob,
    NotRequeueable,
    SlurmJob,
    SlurmUnavailable,
)
from tiresias.slurm_plugin.calls.allowance import Allowance, urgent_first
from tiresias.slurm_plugin.cluster.arrays import members, together
from tiresias.slurm_plugin.config import Preemption as PreemptionConfig
from tiresias.slurm_plugin.state.database import StateError
from tiresias.slurm_plugin.state.journal import Decision, Intent, JobRow, Journal
from tiresias.slurm_plugin.state.ledger import IMPOSSIBLE, Avoided, Ledger

PREEMPT, RENEW, START = "preempt", "renew", "start"
FIRST_LOOK = 2400.0  # seconds before its limit at which a job's report is read: a save of ten minutes is well inside
MAX_BACKOFF = 16  # times the first one
HOLDS = 300  # at a time: a storm of arrivals must not keep those waiting whose turn it is
FIRST_CHECK = 0.5  # seconds after a start; then again after twice as long
RUNS = ("RUNNING", "SUSPENDED")
NODES_AT_FAULT = ("ReqNodeNotAvail", "Reservation", "Resources", "NodeDown", IMPOSSIBLE)  # reasons: another node may do
HELD_BY_OTHERS = "not started: it is held by others, or depends on others, by now"

ReadReport = Callable[[SlurmJob], JobReport]


class Actor:
    def __init__(
        self, backend: Backend, journal: Journal, ledger: Ledger, config: PreemptionConfig, report: ReadReport,
        allowance: Allowance | None = None,
    ) -> None:  # fmt: skip
        self._backend, self._journal, self._ledger = backend, journal, ledger
        self._config, self._report = config, report
        self.allowance = allowance or Allowance()
        self.intents: dict[str, Intent] = {one.id: one for one in journal.open_intents()}
        self._steps: dict[str, Callable[[Intent, float], bool]] = {
            "hold": self._hold, "signal": self._signal, "wait": self._wait, "requeue": self._requeue, "drain": self._drain,
            "unhold": self._unhold, "start": self._start, "confirm": self._confirm, "rehold": self._rehold,
        }  # fmt: skip
        self._seen: Mapping[str, SlurmJob] | None = None
        self._looked: dict[str, float] = {}  # when it was last looked whether a job has gone
        self.news: list[Decision] = []  # what happened since the daemon last looked
        # Called before each job that is acted on: no call hangs for ever.
        self.progress: Callable[[], None] = lambda: None

    # what the daemon calls

    def see(self, jobs: Sequence[SlurmJob]) -> None:
        """The newest records, for the steps that need no fresher ones."""
        self._seen = {job.id: job for job in jobs}

    def hear(self, notes: Iterable[str]) -> None:
        """What a leader before us did when its time was over (fence.py): a hold or a pin of ours, though we never gave it."""
        told = [(verb, job_id) for verb, _, name in (note.partition("-") for note in notes) for job_id in members(name)]
        for verb, job_id in told:
            if row := self._ledger.jobs.get(job_id):
                row.held |= verb == "hold"
                row.pinned |= verb == "start"
                self._ledger.save(row)

    def hold(self, jobs: Iterable[SlurmJob], now: float, before: float = math.inf) -> None:
        """Exact mode: every pending job waits for us. One that others released or requeued is held again. Those that Slurm could
        start soonest come first; `before`: only those that it could start before that moment."""
        free = [job for job in jobs if job.priority > 0 and job.id not in self.intents and job.begin_time < before]
        names = list(together(sorted(free, key=lambda job: job.begin_time)).items())
        self.allowance.postponed += max(len(names) - HOLDS, 0)
        for name, several in names[:HOLDS]:
            if self.allowance.affords_hold(self.intents.values()):
                self._hold_waiting(name, several, now)

    def unpin(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Jobs that wait again get their own request back: their owners may read and change it."""
        for row in [self._ledger.jobs[job.id] for job in jobs if job.id not in self.intents]:
            if row.pinned and row.held:  # not where the hold waits for calls: a job that may start keeps its pin
                self._try(self._unpin, row.id, now)

    def collect(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Jobs that wait for nothing but the requeue: they took too long and have saved by now, or saved before their limit."""
        for job in jobs:
            late = bool(self._ledger.jobs[job.id].unmovable)
            if job.state != "RUNNING" or job.id in self.intents or not (late or _may_save_for_its_limit(job, now)):
                continue
            report = self._report(job) if job.requeue and job.batch else JobReport()
            if report.restart == job.restarts and report.state == "parked":
                self._begin(job.id, RENEW if report.why == "limit" else PREEMPT, now)

    def let_go(self, now: float) -> None:
        """What was moved to where we do not manage is Slurm's again."""
        for row in self._ledger.strays:
            if row.id in self.intents:
                self._finish(self.intents[row.id], "left: for partitions or nodes that are not managed", now)
            self._try(self._release, row.id, now)
            self._ledger.forget(row, now)

    def begin(self, plan: Plan, now: float) -> None:
        """In the plan's order, as far as calls are left: what is not begun now is planned anew."""
        for start in plan.starts:
            if self.allowance.affords_start(self.intents.values()):
                job = self._record(start.job)
                if job and job.priority > 0:  # pins are put on held jobs only
                    self._hold_waiting(job.id, [job], now)
                self._begin(start.job, START, now, nodes=start.nodes)
        for beneficiary, victims in _by_beneficiary(plan.preemptions).items():
            if self.allowance.affords_preemptions(len(victims), self.intents.values()):
                for victim in victims:
                    self._begin(victim, PREEMPT, now, beneficiary=beneficiary)

    def advance(self, now: float) -> None:
        """Take every open intent as far as it goes now. Raises SlurmUnavailable: then all stay where they are."""
        for intent in urgent_first(self.intents.values()) if self._seen is not None else ():
            self._advance(intent, now)

    def steps(self) -> dict[str, str]:
        """The step of each job that is on the move."""
        return {one.id: one.step for one in self.intents.values()}

    def confirm(self, now: float) -> None:
        """Look whether what was started runs, and what was to leave has gone, in the records just seen."""
        for intent in list(self.intents.values()):
            if intent.step == "confirm":
                self._advance(intent, now)
            elif intent.step == "drain":
                self._drained(intent, self._record(intent.id), now)

    def next_check(self, now: float) -> float:
        """When to look again whether what was started runs, as nobody tells; inf: nothing was started."""
        started = [one.stepped for one in self.intents.values() if one.step == "confirm"]
        return now + max(now - max(started), FIRST_CHECK) if started else math.inf

    def release_all(self, now: float) -> list[str]:
        """Fail open: lift every hold and pin that is ours. Returns what could not be lifted, one line each."""
        problems = []
        for intent in list(self.intents.values()):
            with suppress(StateError):
                self._finish(intent, "released: the controller stops", now)
        self._release_together()
        for row in [row for row in self._ledger.jobs.values() if row.held or (row.pinned and not self._runs(row.id))]:
            self.progress()
            try:
                self._release(row.id)
            except (NoSuchJob, StateError):  # our holds go, whether or not that can be written down
                pass
            except (JobRefused, SlurmUnavailable) as error:
                problems.append(f"job {row.id} stays held: {error}; scontrol release {row.id}")
        return problems

    def _release_together(self) -> None:
        """Those that wait for nothing but us and never ran: the most by far, with one call for each record of Slurm's. What goes
        wrong here is left to those who come one by one."""
        with suppress(SlurmUnavailable, JobRefused, StateError):
            jobs, rows = self._ledger.apply(self._backend.snapshot()), self._ledger.jobs
            held = [job for job in jobs if job.held_by_admin and not job.restarts]
            ours = [job for job in held if rows[job.id].held and not rows[job.id].pinned]
            for name, several in together(ours).items():
                self.progress()
                self._backend.lift(name)
                with self._journal.batch():
                    for job in several:
                        self._remember_release(rows[job.id])

    # beginnings and ends

    def _advance(self, intent: Intent, now: float) -> None:
        intent.began, intent.stepped = (
            min(intent.began, now),
            min(intent.stepped, now),
        )  # the clock may have been set back
        self.progress()
        try:
            while not intent.outcome and self._step(intent, now):
                pass
        except JobRefused as error:
            self._refused(intent, str(error), now)

    def _step(self, intent: Intent, now: float) -> bool:
        return self.allowance.affords_step(intent.step) and self._steps[intent.step](intent, now)

    def _begin(
        self, job_id: str, kind: str, now: float, nodes: tuple[tuple[str, int], ...] = (), beneficiary: str = ""
    ) -> None:
        row, job = self._ledger.jobs[job_id], self._record(job_id)
        assert job is not None  # the plan was made from these records
        first = "start" if kind == START else "hold"
        intent = Intent(row.key, job_id, job.restarts, kind, first, nodes, beneficiary, began=now, stepped=now)
        self._journal.begin(intent)
        self.intents[job_id] = intent
        where = ", ".join(f"{node}:{gpus}" for node, gpus in nodes)
        late = "it has saved, though late" if kind == PREEMPT else "it has saved before its time limit"
        leaves = f"for job {beneficiary}" if beneficiary else late
        self._say(now, job_id, kind, f"on {where}" if kind == START else leaves)

    def _finish(self, intent: Intent, outcome: str, now: float) -> bool:
        self._journal.finish(intent, outcome)
        self.intents.pop(intent.id, None)
        self._looked.pop(intent.id, None)
        action, _, why = outcome.partition(": ")
        self._say(now, intent.id, action, why)
        return False

    def _refused(self, intent: Intent, words: str, now: float) -> None:
        """Slurm said no to one step: that job goes its own way, the hold goes, the others are not concerned."""
        row = self._row(intent)
        if row and intent.kind != START:
            if not _is_in_run(self._fresh(intent.id), intent):  # its run is over, and that was all we wanted
                self._next(intent, "drain", now)
                return
            self._mark_unmovable(intent, f"Slurm refused its preemption: {words}")
            self._try(self._lift, intent.id, now)
        elif row:
            self._back_off(row, now)
        self._finish(intent, f"refused: {words}", now)

    # preempt

    def _hold(self, intent: Intent, now: float) -> bool:
        if (row := self._row(intent)) is None:
            return self._finish(intent, "ended: before it was preempted", now)
        job = self._record(intent.id)
        if row.held or job is None or job.priority > 0:  # else somebody else holds it for after this run, and shall
            self._remember_hold(row)
            self._backend.hold(intent.id)
        return self._next(intent, "signal", now)

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
            return self._next(intent, "requeue", now)
        if now - intent.began >= self._config.deadline:
            return self._overdue(intent, report, heard, now)
        if not (heard and report.state == "saving") and now - intent.stepped >= self._config.deadline / 4:
            return self._next(intent, "signal", now)  # a lost signal is sent again
        return False

    def _overdue(self, intent: Intent, report: JobReport, heard: bool, now: float) -> bool:
        """The deadline passed. A job that was saving and has an older checkpoint goes back to that; others run on."""
        if heard and report.state == "saving" and report.step >= 0:
            return self._next(intent, "requeue", now)
        return self._next(intent, "unhold", now)

    def _requeue(self, intent: Intent, now: float) -> bool:
        if _is_in_run(self._fresh(intent.id), intent):
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
        if job.completing or _is_in_run(job, intent):
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
        if row:
            if not row.unmovable:
                self._mark_unmovable(intent, f"did not save within {self._config.deadline:g} s of the signal")
            self._lift(row.id)
        return self._finish(intent, "left running: it could not be preempted", now)

    # start

    def _start(self, intent: Intent, now: float) -> bool:
        row, job = self._row(intent), self._fresh(intent.id)
        if row is None or job is None:
            return self._finish(intent, "ended: before it was started", now)
        if job.state == "PENDING" and not self._ledger.free(job):
            return self._finish(intent, HELD_BY_OTHERS, now)
        if job.state == "PENDING" and not job.completing:
            row.pinned = True
            self._ledger.save(row)
            self._backend.start(intent.id, [node for node, _ in intent.nodes])
            self._remember_release(row)
        return self._next(intent, "confirm", now)

    def _confirm(self, intent: Intent, now: float) -> bool:
        job = self._record(intent.id)
        if self._row(intent) is None or job is None:
            return self._finish(intent, "ended: at once", now)
        if job.state == "RUNNING" or job.restarts > intent.restart or job.completing:
            return self._confirmed(intent, job, now)
        if now - intent.stepped >= self._config.start_timeout:
            return self._next(intent, "rehold", now)
        return False

    def _confirmed(self, intent: Intent, job: SlurmJob, now: float) -> bool:
        row = self._ledger.jobs[intent.id]
        row.failures, row.not_before = 0, 0.0
        row.held = (
            row.held and job.priority == 0
        )  # a life that ended right after the release did not come to write that down
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
        reason = (self._record(intent.id) or job).reason
        if reason.startswith(NODES_AT_FAULT):
            nodes = frozenset(node for node, _ in intent.nodes)
            self._ledger.avoids[row.id] = Avoided(nodes, 2 * row.not_before - now)
        return self._finish(
            intent, f"not started: Slurm says {reason}; tried again in {row.not_before - now:.0f} s", now
        )

    # small things

    def _next(self, intent: Intent, step: str, now: float) -> bool:
        self._journal.step(intent, step, now)
        return True

    def _row(self, intent: Intent) -> JobRow | None:
        """Our row of the very job that the intent is about, unless it ended."""
        row = self._ledger.jobs.get(intent.id)
        return row if row and row.key == intent.key else None

    def _record(self, job_id: str) -> SlurmJob | None:
        """As the last snapshot had it."""
        return (self._seen or {}).get(job_id)

    def _runs(self, job_id: str) -> bool:
        job = self._record(job_id)
        return job is not None and job.state in RUNS and not job.completing

    def _fresh(self, job_id: str) -> SlurmJob | None:
        try:
            return self._backend.job(job_id)
        except NoSuchJob:
            return None

    def _mark_unmovable(self, intent: Intent, why: str) -> None:
        if row := self._row(intent):
            row.unmovable = why
            self._ledger.save(row)

    def _remember_hold(self, row: JobRow) -> None:
        """Before the hold: a hold that nobody remembers would never be lifted. Written even where it says so already: the journal
        takes no write of who leads no longer, and so nobody holds what another controller has just released."""
        row.held = True
        self._ledger.save(row)

    def _remember_release(self, row: JobRow) -> None:
        """After the release, for the same reason."""
        row.held = False
        self._ledger.save(row)

    def _lift(self, job_id: str) -> None:
        """The hold, if it is ours."""
        row = self._ledger.jobs[job_id]
        if row.held:
            self._backend.release(job_id)
            self._remember_release(row)

    def _unpin(self, job_id: str) -> None:
        row = self._ledger.jobs[job_id]
        self._backend.unpin(job_id, row.min_nodes, row.max_nodes, [one for one in row.required.split(",") if one])
        row.pinned = False
        self._ledger.save(row)

    def _release(self, job_id: str) -> None:
        """Give a job back to Slurm: without any hold or pin of ours, but with those of others."""
        row, job = self._ledger.jobs[job_id], self._backend.job(job_id)
        if job.state == "PENDING" and row.pinned:
            with suppress(JobRefused, StateError):  # it started all the same; a pin hurts less than a hold
                if job.priority > 0:  # released a moment ago: no pin is changed under a job that may start
                    self._remember_hold(row)
                    self._backend.hold(job_id)
                self._unpin(job_id)
        if not job.held_by_user:
            self._lift(job_id)

    def _back_off(self, row: JobRow, now: float) -> None:
        row.not_before = now + self._config.backoff * min(2**row.failures, MAX_BACKOFF)
        row.failures += 1
        self._ledger.save(row)

    def _hold_waiting(self, name: str, jobs: Sequence[SlurmJob], now: float) -> None:
        """`name`: what Slurm calls these jobs together."""
        with self._journal.batch():
            for job in jobs:
                self._remember_hold(self._ledger.jobs[job.id])
        self._try(self._backend.hold, name, now)

    def _try(self, verb: Callable[[str], None], job_id: str, now: float) -> None:
        """A verb whose refusal changes nothing: the next snapshot tells."""
        self.progress()
        try:
            verb(job_id)
        except JobRefused as error:
            self._say(now, job_id, "refused", str(error))

    def _say(self, now: float, job_id: str, action: str, why: str) -> None:
        self.news.append(Decision(now, job_id, action, why))


def _may_save_for_its_limit(job: SlurmJob, now: float) -> bool:
    """In the second half of its time: its supervisor takes no more than that (wrappers/limit.py)."""
    return job.time_limit > 0 and min(job.time_limit / 2, FIRST_LOOK) > job.start_time + job.time_limit - now


def _by_beneficiary(preemptions: Iterable[Preemption]) -> dict[str, list[str]]:
    """All that one job needs leave together or not at all."""
    groups: dict[str, list[str]] = {}
    for one in preemptions:
        groups.setdefault(one.beneficiary, []).append(one.job)
    return groups


def _is_in_run(job: SlurmJob | None, intent: Intent) -> bool:
    """Whether the run that the intent is about goes on."""
    return job is not None and job.restarts == intent.restart and job.state in RUNS and not job.completing
