"""Carries a plan out: the preemption contract and the start, as two small machines over journaled steps.

    preempt:  hold -> turn -> signal -> wait -> parked -> requeue -> drain    (wait -> unhold when the job cannot save)
    renew:    hold -> signal -> wait -> requeue -> drain, of a job that saved by itself because its time limit was near
    start:    start -> confirm                               (confirm -> rehold when Slurm does not start it)

`turn` and `parked` are of the victims that one beneficiary needs together; handover.py has them, and the beneficiary's start.

A step is journaled before it is done and every step may be done again: after a crash each open intent goes on from
the step that was written last. When Slurm does not answer, the intent stays where it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Plan, Preemption
from tiresias.slurm_plugin.admission.refusals import ANSWERED, Refusals
from tiresias.slurm_plugin.backends.protocol import Backend, JobRefused, SlurmJob
from tiresias.slurm_plugin.calls.allowance import Allowance, urgent_first
from tiresias.slurm_plugin.cluster.arrays import members, together
from tiresias.slurm_plugin.config import Preemption as PreemptionConfig
from tiresias.slurm_plugin.moves.handover import HandingOver, NodeGpus
from tiresias.slurm_plugin.moves.hands import is_in_run
from tiresias.slurm_plugin.moves.preempting import PREEMPT, RENEW, Preempting, ReadReport
from tiresias.slurm_plugin.moves.releasing import Releasing
from tiresias.slurm_plugin.moves.starting import START, Starting
from tiresias.slurm_plugin.state.journal import Intent, Journal
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.quarantine import Quarantine

FIRST_LOOK = 2400.0  # seconds before its limit at which a job's report is read: a save of ten minutes is well inside
HOLDS = 300  # at a time: a storm of arrivals must not keep those waiting whose turn it is
HOLD_SECONDS = 1.0  # for them: on a slow slurmctld 300 calls take longer than a free GPU may wait
URGENT_HOLD_SECONDS = 5.0  # for those that Slurm is about to start; what is left over it starts alone
FIRST_CHECK = 0.5  # seconds after a start; then again after twice as long


class Actor(Preempting, Starting, HandingOver, Releasing):
    def __init__(
        self, backend: Backend, journal: Journal, ledger: Ledger, config: PreemptionConfig, report: ReadReport,
        allowance: Allowance | None = None, refusals: Refusals | None = None, quarantine: Quarantine | None = None,
    ) -> None:  # fmt: skip
        super().__init__(backend, journal, ledger, config, refusals or Refusals(config.backoff), quarantine)
        self._report = report
        self.allowance = allowance or Allowance()
        self._unpin_from: dict[str, float] = {}  # of jobs of which Slurm refused it
        self._steps: dict[str, Callable[[Intent, float], bool]] = {
            "hold": self._hold, "signal": self._signal, "wait": self._wait, "requeue": self._requeue, "drain": self._drain,
            "unhold": self._unhold, "start": self._start, "confirm": self._confirm, "rehold": self._rehold,
            "turn": self._turn, "parked": self._parked, "spare": self._spare, "prioritize": self._prioritize,
        }  # fmt: skip

    # what the daemon calls, besides `see` and `release_all`

    def hear(self, notes: Iterable[str]) -> None:
        """What a leader before us did when its time was over (fence.py): a hold or a pin of ours, though we never gave it."""
        told = [(verb, job_id) for verb, _, name in (note.partition("-") for note in notes) for job_id in members(name)]
        for verb, job_id in told:
            if row := self._ledger.jobs.get(job_id):
                with self._quarantine.guard("a note about it", job_id):
                    row.held |= verb == "hold"
                    row.pinned |= verb == "start"
                    self._ledger.save(row)

    def hold(self, jobs: Iterable[SlurmJob], now: float, before: float = math.inf) -> None:
        """Exact mode: every pending job waits for us. One that others released or requeued is held again. Those that Slurm could
        start soonest come first; `before`: only those that it could start before that moment."""
        free = [job for job in jobs if job.priority > 0 and job.id not in self.intents and job.begin_time < before]
        names = list(together(sorted(free, key=lambda job: job.begin_time)).items())
        end = time.monotonic() + (HOLD_SECONDS if math.isinf(before) else URGENT_HOLD_SECONDS)
        for place, (name, several) in enumerate(names):
            if place == HOLDS or time.monotonic() >= end:
                self.allowance.postponed += len(names) - place
                return
            if self.allowance.affords_hold(self.intents.values()):
                with self._quarantine.guard("its hold", *(job.id for job in several)):
                    self._hold_waiting(name, several, now)

    def unpin(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Jobs that wait again get their own request back: their owners may read and change it. Where Slurm refuses it, the unpin
        is retried after the back-off."""
        for row in [self._ledger.jobs[job.id] for job in jobs if job.id not in self.intents]:
            # not where the hold waits for calls: a job that may start keeps its pin
            if not (row.pinned and row.held) or now < self._unpin_from.get(row.id, now):
                continue
            self._unpin_from.pop(row.id, None)
            with self._quarantine.guard("its unpin", row.id):
                if not self._try(self._unpin, row.id, now):
                    self._unpin_from[row.id] = now + self._config.backoff

    def collect(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Jobs that wait for nothing but the requeue: they took too long and have saved by now, or saved before their limit."""
        for job in jobs:
            with self._quarantine.guard("reading its report", job.id):
                self._collect(job, now)

    def _collect(self, job: SlurmJob, now: float) -> None:
        late = bool(self._ledger.jobs[job.id].unmovable)
        if job.state != "RUNNING" or job.id in self.intents or not (late or _may_save_for_its_limit(job, now)):
            return
        report = self._report(job) if job.requeue and job.batch else JobReport()
        if report.restart == job.restarts and report.state == "parked":
            self._begin(job.id, RENEW if report.why == "limit" else PREEMPT, now)

    def let_go(self, now: float) -> None:
        """What was moved to where we do not manage is Slurm's again."""
        for row in self._ledger.strays:
            with self._quarantine.guard("its release", row.id):
                if row.id in self.intents:
                    self._finish(self.intents[row.id], "left: for partitions or nodes that are not managed", now)
                self._try(self._release, row.id, now)
                self._ledger.forget(row, now)

    def begin(self, plan: Plan, now: float) -> None:
        """In the plan's order, as far as calls are left: what is not begun now is planned anew."""
        self._reserved = plan.reserved
        for start in plan.starts:
            if self.allowance.affords_start(self.intents.values()):
                with self._quarantine.guard("its start", start.job):
                    self._begin_start(start.job, start.nodes, now)
        nodes = {start.job: start.nodes for start in plan.reserved}
        for beneficiary, victims in _by_beneficiary(plan.preemptions).items():
            if self.allowance.affords_preemptions(len(victims), self.intents.values()):
                for victim in victims:
                    with self._quarantine.guard("its preemption", victim):
                        self._begin(victim, PREEMPT, now, nodes=nodes.get(beneficiary, ()), beneficiary=beneficiary)

    def advance(self, now: float) -> None:
        """Take every open intent as far as it goes now. Raises SlurmUnavailable: then all stay where they are."""
        for intent in urgent_first(self.intents.values()) if self._seen is not None else ():
            self._advance(intent, now)

    def steps(self) -> dict[str, str]:
        """The step of each job that is on the move."""
        return {one.id: one.step for one in self.intents.values()}

    def confirm(self, now: float) -> None:
        """Look whether what was started runs, and what was to leave has gone, in the records just seen."""
        self._find_forgotten_releases((self._seen or {}).values())
        self._find_forgotten_unpins()
        for intent in list(self.intents.values()):
            if intent.step == "confirm":
                self._advance(intent, now)
            elif intent.step == "drain" and not self._quarantine.holds(intent.id):
                with self._quarantine.guard("its preemption", intent.id):
                    self._drained(intent, self._record(intent.id), now)

    def next_check(self, now: float) -> float:
        """When to look again whether what was started runs, as nobody tells; inf: nothing was started."""
        started = [one.stepped for one in self.intents.values() if one.step == "confirm"]
        return now + max(now - max(started), FIRST_CHECK) if started else math.inf

    # inner

    def _advance(self, intent: Intent, now: float) -> None:
        if self._quarantine.holds(intent.id):
            return
        # the clock may have been set back
        intent.began, intent.stepped = min(intent.began, now), min(intent.stepped, now)
        self.progress()
        with self._quarantine.guard(f"step {intent.step!r} of its {intent.kind}", intent.id):
            try:
                while not intent.outcome and self._step(intent, now):
                    pass
            except JobRefused as error:
                self._refused(intent, str(error), now)

    def _step(self, intent: Intent, now: float) -> bool:
        return self.allowance.affords_step(intent.step) and self._steps[intent.step](intent, now)

    def _begin_start(self, job_id: str, nodes: NodeGpus, now: float, beneficiary: str = "") -> None:
        job = self._record(job_id)
        if job and job.priority > 0:  # pins are put on held jobs only
            self._hold_waiting(job.id, [job], now)
        self._begin(job_id, START, now, nodes, beneficiary)

    def _begin(self, job_id: str, kind: str, now: float, nodes: NodeGpus = (), beneficiary: str = "") -> None:
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

    def _refused(self, intent: Intent, words: str, now: float) -> None:
        """Slurm said no to one step: that job goes its own way, the hold goes, the others are not concerned."""
        row = self._row(intent)
        if row and intent.kind != START:
            if not is_in_run(self._fresh(intent.id), intent):  # its run is over, and that was all we wanted
                self._next(intent, "drain", now)
                return
            self._give_up(intent, now)
            self._mark_unmovable(intent, f"Slurm refused its preemption: {words}")
            self._try(self._lift, intent.id, now)
        elif row:
            self._back_off(row, now)
            if job := self._record(intent.id):
                said = words.removeprefix(f"job {intent.id}: ").removesuffix(f" for job {intent.id}")
                self._refusals.note(job, ANSWERED + said, now)
        self._finish(intent, f"refused: {words}", now)

    def _hold_waiting(self, name: str, jobs: Sequence[SlurmJob], now: float) -> None:
        """`name`: what Slurm calls these jobs together."""
        with self._journal.batch():
            for job in jobs:
                self._remember_hold(self._ledger.jobs[job.id])
        self._try(self._backend.hold, name, now)


def _may_save_for_its_limit(job: SlurmJob, now: float) -> bool:
    """In the second half of its time: its supervisor takes no more than that (wrappers/time_limit.py)."""
    return job.time_limit > 0 and min(job.time_limit / 2, FIRST_LOOK) > job.start_time + job.time_limit - now


def _by_beneficiary(preemptions: Iterable[Preemption]) -> dict[str, list[str]]:
    """All that one job needs leave together or not at all."""
    groups: dict[str, list[str]] = {}
    for one in preemptions:
        groups.setdefault(one.beneficiary, []).append(one.job)
    return groups
