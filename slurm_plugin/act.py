"""Carries a plan out: begins starts and preemptions, and takes those under way as far as they get (transitions/)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Plan, Preempt, Resize, Start
from tiresias.slurm_plugin.admission.refusals import Refusals
from tiresias.slurm_plugin.backends.interface import Backend, CommentField, SlurmJob, SlurmNode
from tiresias.slurm_plugin.cluster.arrays import members, together
from tiresias.slurm_plugin.config import PreemptionConfig
from tiresias.slurm_plugin.observation.job_phases import settled_at
from tiresias.slurm_plugin.state import avoided_nodes, own_tasks, owned_cells
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import Decision
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.quarantine import Quarantine
from tiresias.slurm_plugin.transitions.allowance import Allowance, urgent_first
from tiresias.slurm_plugin.transitions.assisting import Assisting
from tiresias.slurm_plugin.transitions.endings import Ending
from tiresias.slurm_plugin.transitions.forgotten import ForgottenChanges
from tiresias.slurm_plugin.transitions.handover import HandingOver
from tiresias.slurm_plugin.transitions.job_holds import JobHolds
from tiresias.slurm_plugin.transitions.left_to_slurm import LeftToSlurm
from tiresias.slurm_plugin.transitions.node_claims import NodeClaims
from tiresias.slurm_plugin.transitions.preempting import Preempting
from tiresias.slurm_plugin.transitions.reduced_limits import ReducedLimits
from tiresias.slurm_plugin.transitions.releasing import Releasing
from tiresias.slurm_plugin.transitions.starting import Starting
from tiresias.slurm_plugin.transitions.suggesting import Suggesting
from tiresias.slurm_plugin.transitions.transition_context import ReadReport, TransitionContext
from tiresias.slurm_plugin.transitions.transition_engine import TransitionEngine

LIMIT_WINDOW_S = 2400.0  # before its time limit, in which a job's report is read: a save of ten minutes is well inside
HOLDS = 300  # at a time: a storm of arrivals must not delay the starts
HOLD_SECONDS = 1.0  # for them: on a slow slurmctld 300 calls take longer than a free GPU may wait
URGENT_HOLD_SECONDS = 5.0  # for those that Slurm is about to start; it starts the rest without a plan
STARTS = (IntentStep.CONFIRM, IntentStep.YIELDED)  # Slurm is to start the job, or its beneficiary
FIRST_CHECK_S = 0.5  # after a start; then again after twice as long


class Actor:
    """The controller's hold on jobs: what it begins, continues and gives back."""

    def __init__(
        self, backend: Backend, journal: Journal, ledger: Ledger, config: PreemptionConfig, report: ReadReport,
        allowance: Allowance | None = None, refusals: Refusals | None = None, quarantine: Quarantine | None = None,
        has_begun: Callable[[SlurmJob, float], bool] = lambda job, now: True, comment_field: CommentField | None = None,
        progress: Callable[[], None] = lambda: None,
        kind_of_preemption: Callable[[SlurmJob], IntentKind] = lambda job: IntentKind.PREEMPT,
        part_types: Sequence[str] = (), why_resized: Callable[[Resize], str] = lambda resize: "",
    ) -> None:  # fmt: skip
        """Continues with the open intents of the journal. See TransitionContext for the arguments.

        `why_resized`: returns why a running job changes its size, for the log."""
        self._why_resized = why_resized
        self.context = TransitionContext(
            backend, journal, ledger, config, report, allowance or Allowance(), refusals or Refusals(config.backoff),
            quarantine or Quarantine(), has_begun, comment_field, progress, kind_of_preemption, tuple(part_types),
        )  # fmt: skip
        self._holds = JobHolds(self.context)
        self._forgotten = ForgottenChanges(self.context, self._holds)
        self._left_to_slurm = LeftToSlurm(self.context, self._holds)
        self._engine = TransitionEngine(self.context, self._holds)
        self._preempting = Preempting(self.context, self._holds)
        self._releasing = Releasing(self.context, self._holds, self._engine, self._forgotten)
        starting = Starting(self.context, self._holds, self._left_to_slurm)
        handing_over = HandingOver(self.context, self._holds, self._engine)
        assisting, suggesting = Assisting(self.context, self._holds), Suggesting(self.context, self._holds)
        for part in (self._preempting, starting, handing_over, assisting, suggesting, self._releasing):
            self._engine.add(part.operations)
        self._reduced_limits = ReducedLimits(self.context)
        self._unpin_from: dict[str, float] = {}  # epoch second of the next attempt, of jobs of which Slurm refused it

    # what is under way

    @property
    def intents(self) -> Mapping[str, Intent]:
        """The open intents, by job id."""
        return self.context.intents

    @property
    def alarms(self) -> list[str]:
        """What an administrator must do, one line each."""
        return self._left_to_slurm.alarms

    @property
    def needs_polls(self) -> bool:
        """Whether an intent waits for what only a poll finds; starts are polled at `next_check`."""
        others = (one for one in self.intents.values() if one.step not in STARTS)
        return any(not self.context.quarantine.holds(one.id) for one in others)

    def steps(self) -> dict[str, str]:
        """The step of each job with an open intent."""
        return {one.id: one.step for one in self.intents.values()}

    def take_news(self) -> list[Decision]:
        """Return the decisions and outcomes since the last call."""
        news, self.context.news = self.context.news, []
        return news

    def add_news(self, news: Iterable[Decision]) -> None:
        """Add decisions of another part of the cycle."""
        self.context.news += news

    def next_check(self, now: float) -> float:
        """When to poll again whether started jobs run, as no event reports it; inf: no start is under way."""
        started = [one.stepped for one in self.intents.values() if one.step in STARTS]
        return now + max(now - max(started), FIRST_CHECK_S) if started else math.inf

    # new records

    def see(self, jobs: Sequence[SlurmJob], at: float = math.inf, nodes: Sequence[SlurmNode] = ()) -> None:
        """Take the records of a new snapshot, for which Slurm was asked at that epoch second."""
        self.context.see(jobs, at, nodes)

    def take_notes(self, notes: Iterable[str]) -> None:
        """Journal holds and pins of an earlier leader whose call ended after its lease did (fence.py)."""
        for call, _, name in (note.partition("-") for note in notes):
            for job_id in members(name):
                if row := self.context.ledger.jobs.get(job_id):
                    with self.context.quarantine.guard("a note about it", job_id):
                        row.held |= call == "hold"
                        row.pinned |= call == "start"
                        self.context.ledger.save(row)

    def confirm(self, now: float) -> None:
        """Find in the new records what was started and now runs, and what has released its GPUs."""
        self._forgotten.find_releases((self.context.records or {}).values())
        self._forgotten.find_unpins()
        for intent in list(self.intents.values()):
            if intent.step in STARTS:
                self._engine.advance(intent, now)
            elif intent.step == IntentStep.DRAIN and not self.context.quarantine.holds(intent.id):
                with self.context.quarantine.guard("its preemption", intent.id):
                    record = self.context.record(intent.id)
                    self._engine.apply(intent, self._preempting.released_gpus(intent, record, now), now)

    def collect(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Begin the requeue of jobs that have saved: after their deadline, before their time limit, or for a requeue that a killed
        slurmctld has forgotten."""
        for job in jobs:
            with self.context.quarantine.guard("reading its report", job.id):
                self._collect(job, now)

    def _collect(self, job: SlurmJob, now: float) -> None:
        row = self.context.ledger.jobs[job.id]
        may_have_saved = row.unmovable or self.context.ledger.is_reopened(row) or _may_save_for_its_limit(job, now)
        if job.state != "RUNNING" or job.id in self.intents or not may_have_saved:
            return
        report = self.context.report(job) if job.requeue and job.batch else JobReport()
        has_parked = report.restart == job.restarts and report.state == "parked"
        if self._forgotten.has_ended(job, report, now):
            self._engine.begin(
                job.id, IntentKind.RENEW, now, why="its run has ended: slurmctld was killed and shows it again"
            )
        elif has_parked:
            self._engine.begin(job.id, IntentKind.RENEW if report.why == "limit" else IntentKind.PREEMPT, now)

    def restore_sizes(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Begin the resize of running jobs that must keep the size that they request, and run with another one."""
        for job in jobs:
            row = self.context.ledger.jobs[job.id]
            is_other = (
                bool(row.rigid) and job.state == "RUNNING" and job.gpus != own_tasks.read(row).get("gpus", job.gpus)
            )
            if not is_other or row.unmovable or job.completing or job.id in self.intents:
                continue
            if self.context.allowance.affords_preemptions(1, self.intents.values()):
                with self.context.quarantine.guard("its change of size", job.id):
                    self._engine.begin(job.id, IntentKind.RESIZE, now)

    # holds

    def hold(self, jobs: Iterable[SlurmJob], now: float, before: float = math.inf) -> None:
        """Hold pending jobs, so that Slurm starts none without a plan; also one that others released or requeued.

        Those that Slurm could start soonest come first. before: only those that it could start before that epoch second.
        """
        busy = self.intents.keys() | self.context.blocked
        free = [job for job in jobs if job.priority > 0 and job.id not in busy and job.begin_time < before]
        names = list(together(sorted(free, key=lambda job: job.begin_time)).items())
        end = time.monotonic() + (HOLD_SECONDS if math.isinf(before) else URGENT_HOLD_SECONDS)
        allowance = self.context.allowance
        for place, (name, several) in enumerate(names):
            if place == HOLDS or time.monotonic() >= end:
                allowance.postpone(len(names) - place)
                return
            if allowance.affords_hold(self.intents.values()):
                with self.context.quarantine.guard("its hold", *(job.id for job in several)):
                    self._holds.hold_pending(name, several, now)

    def unpin(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Give jobs that are pending again their owners' requests back; where Slurm refuses it, again after the back-off."""
        for row in [self.context.ledger.jobs[job.id] for job in jobs if job.id not in self.intents]:
            # not where the hold waits for calls: a job that may start keeps its pin
            if not (row.pinned and row.held) or now < self._unpin_from.get(row.id, now):
                continue
            self._unpin_from.pop(row.id, None)
            with self.context.quarantine.guard("its unpin", row.id):
                if not self._holds.attempt(self._holds.unpin, row.id, now):
                    self._unpin_from[row.id] = now + self.context.config.backoff

    def release_left_to_slurm(self, jobs: Sequence[SlurmJob], now: float) -> None:
        """Release jobs that are left to Slurm, and those whose dependencies it has to examine."""
        self._left_to_slurm.release_again(jobs, now)
        self._releasing.release_dependent(jobs, now)

    def release_waiting(self, jobs: Iterable[SlurmJob], now: float) -> None:
        """Release pending jobs that nothing under way keeps held or pinned: Slurm starts them (mode assist)."""
        for job in jobs:
            row, pending = self.context.ledger.jobs.get(job.id), job.state == "PENDING" and not job.completing
            is_ours = row is not None and (row.held or row.pinned)  # None: it has ended since the snapshot
            if pending and is_ours and job.id not in self.intents and settled_at(job, now) <= now:
                with self.context.quarantine.guard("its release", job.id):
                    self._holds.attempt(self._releasing.release, job.id, now)

    def release_unmanaged(self, now: float) -> None:
        """Release jobs that were moved to partitions that are not managed."""
        for row in self.context.ledger.strays:
            with self.context.quarantine.guard("its release", row.id):
                if row.id in self.intents:
                    self._engine.finish(self.intents[row.id], Ending.UNMANAGED.end(), now)
                self._holds.attempt(self._releasing.release, row.id, now)
                self.context.ledger.forget(row, now)

    def release_all(self, now: float, set_aside: Callable[[SlurmJob], bool] = lambda job: False) -> list[str]:
        """Fail open; see Releasing.release_all."""
        return self._releasing.release_all(now, set_aside)

    def signal_reduced_limits(self, jobs: Sequence[SlurmJob], now: float) -> None:
        """Have the supervisors of jobs whose time limit was reduced ask Slurm for their end; see ReducedLimits.signal."""
        self._reduced_limits.signal(jobs, now)

    # the plan

    def begin(self, plan: Plan, now: float) -> None:
        """Begin what the plan lists, in its order, as far as calls and other starts allow it: the rest is planned anew."""
        self.context.reserved = plan.reserved
        allowance, claims = self.context.allowance, NodeClaims(self.context)
        for start in plan.starts:
            # requeued, and its preemption is not over: advance() ends it first; or started since the snapshot
            if start.job in self.intents or start.job in self.context.started:
                continue
            if claims.take(start.job, start.nodes) and allowance.affords_start(self.intents.values()):
                with self.context.quarantine.guard("its start", start.job):
                    self._engine.begin_start(
                        start.job,
                        start.nodes,
                        now,
                        cells=owned_cells.of_start(start),
                        parts=start.parts,
                        servers=start.servers,
                    )
        reserved = {start.job: start for start in plan.reserved}
        for victim in self._affordable(plan.releases):
            with self.context.quarantine.guard("its preemption", victim.job):
                self._begin_preemption(victim, reserved.get(victim.beneficiary), now)
        for resize in plan.resizes:
            if not resize.beneficiary and allowance.affords_preemptions(1, self.intents.values()):
                with self.context.quarantine.guard("its change of size", resize.job):
                    self._engine.begin(resize.job, IntentKind.RESIZE, now, why=self._why_resized(resize))

    def assist(self, plan: Plan, why: Mapping[str, str], now: float) -> None:
        """Begin preemptions after which Slurm starts the beneficiary by itself. why: of each preempted job, for the log."""
        self.context.reserved = plan.reserved
        for one in self._affordable(plan.preemptions):
            with self.context.quarantine.guard("its preemption", one.job):
                self._engine.begin(one.job, IntentKind.ASSIST, now, beneficiary=one.beneficiary, why=why[one.job])

    def _affordable(self, releases: Iterable[Preempt | Resize]) -> Iterator[Preempt | Resize]:
        """Yield the victims, all of one beneficiary or none, as far as calls are left."""
        for victims in _by_beneficiary(releases).values():
            if self.context.allowance.affords_preemptions(len(victims), self.intents.values()):
                yield from victims

    def replace(self, job_id: str, nodes: frozenset[str], why: str, now: float) -> None:
        """Begin the requeue of a running job that avoids these nodes from now on, where others suffice."""
        if job_id not in self.intents and self.context.allowance.affords_preemptions(1, self.intents.values()):
            with (
                self.context.quarantine.guard("the replacement of its slow node", job_id),
                self.context.journal.batch(),
            ):
                row = self.context.ledger.jobs[job_id]
                avoided_nodes.note_slow(row, nodes, now)
                self.context.ledger.save(row)
                self._engine.begin(job_id, IntentKind.REPLACE, now, why=why)

    def _begin_preemption(self, victim: Preempt | Resize, reserved: Start | None, now: float) -> None:
        start = reserved or Start(victim.beneficiary, ())
        cells, job = owned_cells.of_start(start), self.context.record(victim.job)
        assert job is not None  # the plan was made from these records
        kind, why = self.context.kind_of_preemption(job), ""
        if isinstance(victim, Resize) and kind == IntentKind.PREEMPT:  # else it begins anew, whatever its size
            kind, why = IntentKind.RESIZE, self._why_resized(victim)
        self._engine.begin(
            victim.job, kind, now, start.nodes, victim.beneficiary, cells, start.parts, start.servers, why
        )

    def rebind(self, cells: Mapping[str, str]) -> None:
        """Journal in which cells of their virtual clusters jobs hold their GPUs from now on, by job id (owned_cells.py)."""
        with self.context.journal.batch():
            for job, text in cells.items():
                with self.context.quarantine.guard("its cells", job):
                    self._rebind(job, text)

    def _rebind(self, job_id: str, cells: str) -> None:
        row, job = self.context.ledger.jobs[job_id], self.context.record(job_id)
        for intent in self.intents.values():
            if job_id in (intent.id if intent.kind == IntentKind.START else "", intent.beneficiary):
                self.context.journal.rebind(intent, cells)
        if job is not None:
            self.context.ledger.note_cells(row, job, cells)

    def advance(self, now: float) -> None:
        """Take every open intent as far as it gets now. Raises SlurmUnavailable: then all stay where they are."""
        for intent in urgent_first(self.intents.values()) if self.context.records is not None else ():
            self._engine.advance(intent, now)


def _may_save_for_its_limit(job: SlurmJob, now: float) -> bool:
    """Whether the job is in the second half of its time: its supervisor saves no earlier (wrappers/time_limit.py)."""
    return job.time_limit > 0 and min(job.time_limit / 2, LIMIT_WINDOW_S) > job.start_time + job.time_limit - now


def _by_beneficiary(releases: Iterable[Preempt | Resize]) -> dict[str, list[Preempt | Resize]]:
    """Group the victims: all that one job needs are preempted, or none."""
    groups: dict[str, list[Preempt | Resize]] = {}
    for one in releases:
        groups.setdefault(one.beneficiary, []).append(one)
    return groups
