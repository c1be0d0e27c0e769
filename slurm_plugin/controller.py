"""One cycle after the other: observe -> decide -> act -> publish. When the next one comes the daemon says (daemon.py)."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiresias import __version__
from tiresias.errors import Unavailable
from tiresias.protocol.control import JobReport, state_controller
from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.admit.quotas import blocks_beside_free
from tiresias.scheduler.model import JobState, Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision, next_change_of
from tiresias.slurm_plugin.act import Actor
from tiresias.slurm_plugin.admission.known_rules import RULES_BEFORE_PREEMPTION_S, KnownRules
from tiresias.slurm_plugin.admission.refusals import Refusals
from tiresias.slurm_plugin.backends.budget import Budgeted
from tiresias.slurm_plugin.backends.protocol import Backend, SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.calls.traffic import Traffic, bucket
from tiresias.slurm_plugin.cluster import sharing, topology
from tiresias.slurm_plugin.cluster.partition_pools import PartitionPools
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.comments.start_times import starts_of
from tiresias.slurm_plugin.comments.waiting_text import WaitingComment, waiting_comments
from tiresias.slurm_plugin.comments.writer import CommentWriter
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.failover.fence import FencedBackend
from tiresias.slurm_plugin.failover.standby import WANTED
from tiresias.slurm_plugin.lead.leadership import Leadership
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.observation.profiles import Profiles
from tiresias.slurm_plugin.observation.scripts import with_scripts
from tiresias.slurm_plugin.shadow import Gpus, Shadow
from tiresias.slurm_plugin.sockets.privacy import Privacy
from tiresias.slurm_plugin.sockets.publication import SHOWN_DECISIONS, Publication, Publisher
from tiresias.slurm_plugin.state.database import StateError, Unwritable
from tiresias.slurm_plugin.state.intents import IntentKind, IntentStep, Notice
from tiresias.slurm_plugin.state.journal import Decision, Journal
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.quarantine import Quarantine
from tiresias.slurm_plugin.state.switches import PAUSED, pause, refuse_if_stopped, resume, stop, switched
from tiresias.slurm_plugin.transitions.allowance import Allowance
from tiresias.slurm_plugin.transitions.transition_table import row_of

log = logging.getLogger("tiresias")

TOPOLOGY_SECONDS = 300.0  # between two looks at Slurm's switches
RECENT = 1000  # cycles of which the median and the 99th percentile are shown
PRUNE_SECONDS = 3600.0  # between two prunings of the journal
LAST_MOVES_SECONDS = 10.0  # what a stopping controller gives the preemptions under way


class _Decided(NamedTuple):
    """The managed jobs, what is known of their traffic, and what is decided on them. change: when that may change by itself."""

    managed: list[SlurmJob]
    profiles: Mapping[str, Summary]
    snapshot: Snapshot
    plan: Plan
    parts: tuple[PoolDecision, ...]
    change: float


class Controller:
    """One cycle at a time. `clock` gives epoch seconds."""

    def __init__(
        self, config: Config, backend: Backend, journal: Journal, leadership: Leadership, site: Site,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._config, self._journal, self._leadership = config, journal, leadership
        self._site, self._clock = site, clock
        budgeted = Budgeted(with_scripts(backend, config.paths.control), bucket(config.rpc, site.rate_limit))
        self._bucket, self._traffic = budgeted.bucket, Traffic(budgeted)
        self._backend = FencedBackend(budgeted, leadership, journal)
        self._allowance = Allowance(budgeted.bucket, budgeted.prices)
        self._progress: Callable[[], None] = lambda: None
        self._comments = self._comment_writer(config, site)
        self._rules = KnownRules(self._backend.rules, lambda: self._refusals.forget())
        self._quarantine = Quarantine()
        self._admission_waits = frozenset({config.admission_wait})  # that job_submit.lua may have given to a job
        self._recall()
        self._profiles = Profiles(config.paths.control)
        self._pools = PartitionPools(config)
        self._started, self._cycles, self.seconds = clock(), 0, 0.0
        self._recent: deque[float] = deque(maxlen=RECENT)  # seconds of the newest cycles
        self.latency = 0.0  # seconds that Slurm took for the newest snapshot
        self._actions: Counter[str] = Counter()
        self._decisions = list(reversed(journal.decisions(limit=SHOWN_DECISIONS)))
        self._version, self._prune_at = budgeted.version(), clock() + PRUNE_SECONDS
        self.publisher = Publisher(journal.path, Privacy(site.private, site.rights.overseers | {os.geteuid()}))
        self.more_alarms: Callable[[], Collection[str]] = list  # of who runs this controller
        self.wanted = False  # another controller is to lead
        self.leaving_since = math.inf  # somebody whom we do not move is about to free GPUs
        # When the plan changes though nothing happens: a threshold is crossed, a wait too long.
        self.next_change = math.inf

    @classmethod
    def leading(
        cls, config: Config, backend: Backend, leadership: Leadership, site: Site, though_stopped: bool = False
    ) -> Controller:
        """One that goes on from the journal, in the epoch of `leadership`. Raises UsageError when none is to lead, but
        `though_stopped`: only to release."""
        journal = Journal(Path(config.paths.state), leadership.epoch)
        try:
            if not though_stopped:
                refuse_if_stopped(journal)
                _state_versions(config)
            return cls(config, backend, journal, leadership, site)
        except BaseException:
            journal.close()
            raise

    @property
    def moving(self) -> bool:
        """Something is under way that only looking again will tell about."""
        others = (one for one in self._actor.intents.values() if one.step != IntentStep.CONFIRM)  # starts: next_check
        return any(not self._quarantine.holds(one.id) for one in others)

    def _recall(self) -> None:
        """All that is remembered of jobs, as the journal has it."""
        ledger = Ledger(self._journal, Scope.of(self._config), self._quarantine)
        refusals = Refusals(self._config.preemption.backoff)
        for row in ledger.jobs.values():
            if row.failures:
                refusals.recall(row.id, row.failures, row.not_before)
        observer = Observer(self._config, ledger, refusals)
        observer.admission_waits = self._admission_waits
        actor = Actor(
            self._backend, self._journal, ledger, self._config.preemption, observer.reports.fresh, self._allowance, refusals,
            self._quarantine, observer.has_begun, self._comments.field, lambda: self._progress(),
        )  # fmt: skip
        self._ledger, self._observer, self._actor, self._is_ahead = ledger, observer, actor, False
        self._refusals = refusals
        self._shadow = Shadow(self._journal, self._config.lease_seconds) if self._config.mode == "shadow" else None
        self._topology_at = -math.inf
        self._heed_pause()

    @contextlib.contextmanager
    def _no_further_than_written(self) -> Iterator[None]:
        """What cannot be journaled is not done. Memory may be a step ahead then: it goes back to the journal, as after a crash."""
        if self._is_ahead:
            self._recall()
        try:
            yield
        except Unwritable:
            self._is_ahead = True
            raise

    def cycle(self) -> None:
        """Raises Unavailable when Slurm, the lease or the journal is out of reach; nothing is lost, the next cycle goes on. Raises
        Superseded when somebody else leads."""
        with self._no_further_than_written():
            self._one_cycle()

    def _one_cycle(self) -> None:
        began = self._clock()
        self._leadership.renew()
        self._allowance.postponed = 0
        if self._config.mode == "exact":
            self._actor.advance(began)  # before the snapshot, so that it shows what was done
        self._look_at_topology(began)
        self._rules.refresh(began)
        self._prune(began)
        self._observer.packlimit.refit(self._ledger, began)
        self._traffic.look(began)
        slurm, notes = self._snapshot(), self._leadership.notes()
        self._actor.take_notes(notes)  # before a pin is taken for its owner's request
        managed = self._ledger.apply(slurm)
        self._actor.take_notes(notes)  # of jobs first seen in this snapshot
        self.wanted |= WANTED in notes
        for note in notes:
            self._leadership.done(note)
        if self._config.mode == "exact":
            self._take_note(managed, slurm.time)
        self._note_costs(managed)
        decided = self._quarantine.sift("scheduling it", slurm.jobs, lambda jobs: self._decided(slurm, jobs, managed))
        managed, snapshot = decided.managed, decided.snapshot
        self._rules.blocks = blocks_beside_free(snapshot, decided.plan)
        self._carry_out(decided.plan, slurm, snapshot)
        if self._config.mode == "exact":
            sound = self._quarantine.sound(managed)
            self._leave_in_order(self._observer.waiting(sound, slurm.time), sound)
        else:
            self._give_back(managed)
        settled = self._observer.next_settled(managed, slurm.time)
        postponed = -math.inf if self._allowance.postponed else math.inf
        rules = self._rules.due if self._rules.blocks else math.inf
        self.next_change = min(decided.change, settled, self._actor.next_check(self._clock()), postponed, rules)
        leaving = snapshot.jobs.state == JobState.RELEASING
        others = any(snapshot.jobs.id[row] not in self._actor.intents for row in np.flatnonzero(leaving))
        self.leaving_since = min(self.leaving_since, slurm.time) if others else math.inf
        self._cycles, self.seconds = self._cycles + 1, self._clock() - began
        self._recent.append(self.seconds)
        self._publish(slurm, decided)
        if self._config.mode == "exact" and not self._allowance.postponed:
            self._comment(slurm, decided)

    def _comment_writer(self, config: Config, site: Site) -> CommentWriter:
        return CommentWriter(
            config.comment, self._backend, site.rights.may_administer(os.geteuid()),
            lambda: self._allowance.spare(self._actor.intents.values()),
        )  # fmt: skip

    def _comment(self, slurm: SlurmSnapshot, decided: _Decided) -> None:
        snapshot, managed = decided.snapshot, decided.managed
        starting = {one.id for one in self._actor.intents.values() if one.kind == IntentKind.START}
        promised = starting | {
            snapshot.jobs.id[row] for row in np.flatnonzero(snapshot.jobs.state == JobState.STARTING)
        }
        self._comments.write(lambda: _texts(slurm, decided), managed, starting, promised)

    def _decided(self, slurm: SlurmSnapshot, jobs: Sequence[SlurmJob], managed: Sequence[SlurmJob]) -> _Decided:
        """What follows from these of the snapshot's jobs. It acts on none, so it may be asked again for some of them alone."""
        if jobs is not slurm.jobs:
            ids = {job.id for job in jobs}
            slurm, managed = replace(slurm, jobs=tuple(jobs)), [job for job in managed if job.id in ids]
        profiles = self._profiles.look(managed, slurm.time)
        snapshot = self._observer.observe(slurm, managed, self._actor.intents, profiles, self._rules.rules)
        self._learn(snapshot)
        plan, parts = self._decide(snapshot, slurm)
        if plan.preemptions and self._rules.refresh(self._clock(), RULES_BEFORE_PREEMPTION_S):
            snapshot = self._observer.observe(slurm, managed, self._actor.intents, profiles, self._rules.rules)
            plan, parts = self._decide(snapshot, slurm)
        return _Decided(list(managed), profiles, snapshot, plan, parts, next_change_of(parts))

    def _decide(self, snapshot: Snapshot, slurm: SlurmSnapshot) -> tuple[Plan, tuple[PoolDecision, ...]]:
        return self._pools.decide(snapshot, slurm)

    def _snapshot(self) -> SlurmSnapshot:
        began = time.monotonic()
        found = self._backend.snapshot()
        self.latency = time.monotonic() - began
        return found

    def wait_for_calls(self) -> float:
        """Seconds until there are enough calls for a cycle and something that comes of it."""
        return self._allowance.wait(self._actor.intents.values())

    def _look_at_topology(self, now: float) -> None:
        """It changes when an admin reconfigures Slurm."""
        if now - self._topology_at >= TOPOLOGY_SECONDS:
            self._observer.switches = topology.from_slurm(self._backend.topology())
            self._topology_at = now

    @property
    def words(self) -> str:
        """What it does, for who looks from outside."""
        jobs = f"{len(self._ledger.jobs)} jobs, cycle {self._cycles} took {self.seconds:.2f} s"
        return f"{self._config.mode}: {jobs}" + ("; preemptions are paused" if self._pause else "")

    def _prune(self, now: float) -> None:
        if self._config.state.keep_days and now >= self._prune_at:
            pruned = self._journal.prune(now - self._config.state.keep_days * 86400.0)
            self._prune_at = now + (0.0 if pruned else PRUNE_SECONDS)

    def poll(self) -> bool:
        """Look at what is under way, without a snapshot; True when something came a step further. Raises as cycle does."""
        with self._no_further_than_written():
            before = self._actor.steps()
            self._actor.advance(self._clock())
            return self._actor.steps() != before

    def on_progress(self, call: Callable[[], None]) -> None:
        """Called in the middle of long cycles, too, wherever some of their work is done."""
        self._progress = call

    def pause(self, by: str, reason: str) -> str:
        """Preempt nobody from the next cycle on; preemptions under way come to their end, starts go on."""
        outcome = pause(self._journal, self._clock(), by, reason)
        self._heed_pause()
        return outcome

    def resume(self) -> str:
        outcome = resume(self._journal)
        self._heed_pause()
        return outcome

    def forbid(self, by: str, reason: str) -> None:
        """No controller leads from now on, neither this one nor another."""
        stop(self._journal, self._clock(), by, reason)

    def reconfigure(self, config: Config, site: Site, changes: Sequence[str]) -> None:
        """From the next cycle on, which begins with what the journal has, as a new controller does: no job is held or released for
        it. Raises StateError when the changes cannot be journaled: then the old configuration stays."""
        self._log_news()
        reload = Decision(self._clock(), "", Notice.RELOAD, "; ".join(changes))
        self._journal.record([reload])
        self._decisions = [*self._decisions, reload][-SHOWN_DECISIONS:]
        limit = bucket(config.rpc, site.rate_limit)
        self._bucket.resize(limit.size, limit.rate)
        if (config.policy, config.partition_policies) != (self._config.policy, self._config.partition_policies):
            self._pools = PartitionPools(config)
        self._admission_waits |= {config.admission_wait}
        if (config.mode, config.comment.field) != (self._config.mode, self._config.comment.field):
            self._uncomment()
        self._comments = self._comment_writer(config, site)
        self._config, self._site, self._is_ahead = config, site, True

    def _heed_pause(self) -> None:
        self._pause = switched(self._journal, PAUSED)
        self._observer.paused = f"preemptions are paused {self._pause.words}" if self._pause else ""

    def close(self) -> None:
        self._journal.close()

    def stop(self) -> list[str]:
        """Finish the preemptions under way, then lift our holds. Returns what could not be lifted."""
        deadline = self._clock() + LAST_MOVES_SECONDS
        try:
            while self.moving and self._clock() < deadline:
                self.poll()
                time.sleep(self._config.poll)
        except (Unavailable, StateError) as error:
            log.warning("%s", error)
        return self.release()

    def release(self) -> list[str]:
        exact = self._config.mode == "exact"  # else nobody was set aside: a wait of that length is the user's own
        problems = self._actor.release_all(self._clock(), lambda job: exact and self._observer.is_set_aside(job))
        with contextlib.suppress(StateError):
            self._log_news()
        if exact:
            self._uncomment()
        return problems

    def _uncomment(self) -> None:
        """After the holds: a comment that stays is harmless."""
        with contextlib.suppress(Unavailable):
            jobs = [job for job in self._backend.snapshot().jobs if job.id in self._ledger.jobs]
            if not self._comments.remove_all(jobs):
                log.warning("comments of waiting jobs may be left: the next controller removes them")

    def _take_note(self, managed: list[SlurmJob], seen_at: float) -> None:
        now = self._clock()
        self._actor.see(managed, seen_at)
        self._actor.confirm(now)
        soon = now + self._config.lease_seconds / 2
        self._actor.hold(self._observer.waiting(managed, now), now, before=soon)
        self._actor.collect(managed, now)
        self._actor.release_unmanaged(now)

    def _give_back(self, managed: list[SlurmJob]) -> None:
        """Mode shadow holds and moves nothing. What a controller in mode exact left when it was killed is lifted, as its own end
        would have done."""
        rows = [(self._ledger.jobs[job.id], job.state == "PENDING") for job in managed]
        if self._actor.intents or any(row.held or (row.pinned and waits) for row, waits in rows):
            for problem in self.release():
                log.warning("%s", problem)
            self._uncomment()

    def _leave_in_order(self, waiting: list[SlurmJob], managed: list[SlurmJob]) -> None:
        """What no start has to wait for."""
        now = self._clock()
        self._actor.hold(waiting, now)
        self._actor.unpin(waiting, now)
        self._actor.release_left_to_slurm(managed, now)

    def _note_costs(self, managed: list[SlurmJob]) -> None:
        """What a run says of its start, once it trains."""
        for job in managed:
            if report := self._observer.reports.known(job):
                with self._quarantine.guard("reading its report", job.id):
                    self._note_cost(job, report)

    def _note_cost(self, job: SlurmJob, report: JobReport) -> None:
        row = self._ledger.jobs[job.id]
        self._ledger.note(
            row, job.restarts, restore=report.restore, save=report.save, redone=report.redone, pace=report.pace
        )

    def _learn(self, snapshot: Snapshot) -> None:
        """From all jobs of the past, as often as a policy wants to."""
        self._pools.learn(self._ledger.over, self._ledger.past, snapshot.jobs)

    def _carry_out(self, plan: Plan, slurm: SlurmSnapshot, snapshot: Snapshot) -> None:
        self._promote(plan)
        if self._shadow:
            self._actor.context.news += self._shadow.look(slurm, plan, self._ledger.jobs, Gpus.of(snapshot))
        else:
            self._actor.begin(plan, self._clock())
            self._actor.advance(self._clock())
        self._log_news()

    def _promote(self, plan: Plan) -> None:
        now = self._clock()
        for job_id in plan.promoted:
            with self._quarantine.guard("its promotion", job_id):
                row = self._ledger.jobs[job_id]
                row.reset = now
                self._ledger.save(row)
            self._actor.context.add_news(now, job_id, Notice.PROMOTE, "waited too long: its service counts from 0")

    def _log_news(self) -> None:
        news = self._actor.take_news()
        if not news:
            return
        for one in news:
            log.info("job %s: %s: %s", one.id, one.action, one.why)
            self._actions[one.action] += 1
        with self._journal.batch():
            self._journal.record(news)
        self._decisions = (self._decisions + news)[-SHOWN_DECISIONS:]

    def _publish(self, slurm: SlurmSnapshot, decided: _Decided) -> None:
        running = self._quarantine.sound(job for job in decided.managed if job.state == "RUNNING")
        reports = {job.id: self._observer.reports.of(job) for job in running}
        self.publisher.publish(
            Publication(
                about=self._about(),
                slurm=slurm,
                snapshot=decided.snapshot,
                plan=decided.plan,
                parts=decided.parts,
                rows=dict(self._ledger.jobs),
                phases=self._phases(),
                unmovable={
                    job.id: self._observer.why_unmovable(job, slurm.time)
                    for job in running
                    if job.id in self._ledger.jobs
                },
                reports=reports,
                decisions=tuple(reversed(self._decisions)),
                config=self._config,
                profiles=decided.profiles,
                due={
                    one.beneficiary: one.began + self._config.preemption.deadline
                    for one in self._actor.intents.values()
                    if one.beneficiary
                },
            )
        )

    def _phases(self) -> dict[str, str]:
        if self._shadow:
            return self._shadow.phases()
        return {one.id: row_of(one).phase for one in self._actor.intents.values()}

    def _alarms(self) -> list[str]:
        traffic = self._traffic.alarms(self._allowance.postponed)
        own = [*self._rules.alarms, *self._actor.alarms, *self._quarantine.alarms(), *self._pools.alarms]
        return [*self._site.alarms, *sharing.alarms(self._observer.unprotected), *traffic, *own, *self.more_alarms()]

    def _about(self) -> dict[str, object]:
        return {
            "cluster": self._site.cluster, "mode": self._config.mode, "backend": self._backend.name, "slurm": self._version,
            "tiresias": __version__, "pid": os.getpid(), "started": self._started,
            "alarms": self._alarms(),
            "cycle": {
                "count": self._cycles, "seconds": round(self.seconds, 4), "period": self._config.period,
                "median": round(statistics.median(self._recent), 4), "p99": round(_p99(self._recent), 4),
                "snapshot": round(self.latency, 4),
            },
            "rpc": self._traffic.published(self._allowance.postponed),
            "actions": dict(self._actions), "totals": self._ledger.totals.published(),
            "packlimit": self._observer.packlimit.published(), "leader": self._leadership.published(),
            "paused": self._pause and self._pause.published(), "shadow": self._shadow and self._shadow.published(),
        }  # fmt: skip


def _state_versions(config: Config) -> None:
    """Leave the versions of the control protocol that this controller speaks where supervisors read them."""
    if config.mode == "shadow":
        return
    try:
        state_controller(config.paths.control)
    except OSError as error:
        log.warning(
            "%s: %s; jobs assume version 1 of the control protocol", config.paths.control, error.strerror or error
        )


def _p99(seconds: Collection[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100]


def _texts(slurm: SlurmSnapshot, decided: _Decided) -> Iterator[WaitingComment]:
    for part in decided.parts:
        starts = starts_of(slurm, part.snapshot, part.plan, part.pool.config)
        yield from waiting_comments(part.snapshot, part.plan, decided.managed, starts)
