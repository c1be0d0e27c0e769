"""The controller: observe -> decide -> act -> publish, once a period and whenever somebody pokes.

Of several with the same state folder one leads (leadership.py); another takes over when that one is gone, and goes on from the
journal. Fail open: at a normal end, and on `tiresias controller --release`, every hold that it placed is lifted and Slurm carries
on alone, unless another controller stands by. A controller that is killed leaves its holds.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import FrameType

import numpy as np

from tiresias import __version__
from tiresias.errors import TiresiasError, Unavailable
from tiresias.profiler.summary import Summary
from tiresias.scheduler.decide import decide, next_change
from tiresias.scheduler.model import Plan, Snapshot, State
from tiresias.scheduler.policies import POLICIES
from tiresias.slurm_plugin import topology
from tiresias.slurm_plugin.act import Actor
from tiresias.slurm_plugin.allowance import Allowance
from tiresias.slurm_plugin.backends.budget import Budgeted
from tiresias.slurm_plugin.backends.protocol import Backend, SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.bell import Bell
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.control_socket import Answer, ControlServer, PokeSocket, poke
from tiresias.slurm_plugin.database import StateError, Unwritable
from tiresias.slurm_plugin.fence import FencedBackend
from tiresias.slurm_plugin.journal import Decision, Journal
from tiresias.slurm_plugin.leadership import HUNG_SECONDS, Leadership, Superseded
from tiresias.slurm_plugin.ledger import Ledger
from tiresias.slurm_plugin.observe import Observer
from tiresias.slurm_plugin.orders import PAUSE, RESUME, STOP, Order, Orders
from tiresias.slurm_plugin.own_folder import refuse_shared
from tiresias.slurm_plugin.pace import Pace
from tiresias.slurm_plugin.privacy import Privacy
from tiresias.slurm_plugin.profiles import Profiles
from tiresias.slurm_plugin.publication import PHASES, SHOWN_DECISIONS, Publication, Publisher
from tiresias.slurm_plugin.scope import Scope
from tiresias.slurm_plugin.site import Site
from tiresias.slurm_plugin.standby import WANTED, Standby
from tiresias.slurm_plugin.switches import PAUSED, pause, refuse_if_stopped, resume, stop, switched
from tiresias.slurm_plugin.systemd import Watchdog, notify
from tiresias.slurm_plugin.traffic import Traffic, bucket

log = logging.getLogger("tiresias")

TOPOLOGY_SECONDS = 300.0  # between two looks at Slurm's switches
RECENT = 1000  # cycles of which the median and the 99th percentile are shown
PRUNE_SECONDS = 3600.0  # between two prunings of the journal
LAST_MOVES_SECONDS = 10.0  # what a stopping controller gives the preemptions under way


class Controller:
    """One cycle at a time. `clock` gives epoch seconds."""

    def __init__(
        self, config: Config, backend: Backend, journal: Journal, leadership: Leadership, site: Site,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._config, self._journal, self._leadership = config, journal, leadership
        self._site, self._clock = site, clock
        budgeted = Budgeted(backend, bucket(config.rpc, site.rate_limit))
        self._traffic = Traffic(budgeted)
        self._backend = FencedBackend(budgeted, leadership, journal)
        self._allowance = Allowance(budgeted.bucket, budgeted.prices)
        self._progress: Callable[[], None] = lambda: None
        self._recall()
        self._profiles = Profiles(config.paths.control)
        self._policy = POLICIES[config.policy.name]
        self._started, self._cycles, self.seconds = clock(), 0, 0.0
        self._recent: deque[float] = deque(maxlen=RECENT)  # seconds of the newest cycles
        self.latency = 0.0  # seconds that Slurm took for the newest snapshot
        self._actions: Counter[str] = Counter()
        self._would: dict[str, str] = {}  # shadow mode: what was said last of each job
        self._decisions = list(reversed(journal.decisions(limit=SHOWN_DECISIONS)))
        self._version, self._prune_at = budgeted.version(), clock() + PRUNE_SECONDS
        self.publisher = Publisher(journal.path, Privacy(site.private, site.rights.overseers | {os.geteuid()}))
        self.wanted = False  # another controller is to lead
        self.leaving_since = math.inf  # somebody whom we do not move is about to free GPUs
        self.next_change = (
            math.inf
        )  # when the plan changes though nothing happens: a threshold is crossed, a wait too long

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
            return cls(config, backend, journal, leadership, site)
        except BaseException:
            journal.close()
            raise

    @property
    def moving(self) -> bool:
        """Something is under way that only looking again will tell about."""
        return any(intent.step != "confirm" for intent in self._actor.intents.values())  # starts: next_check

    def _recall(self) -> None:
        """All that is remembered of jobs, as the journal has it."""
        ledger = Ledger(self._journal, Scope.of(self._config))
        observer = Observer(self._config, ledger)
        actor = Actor(
            self._backend, self._journal, ledger, self._config.preemption, observer.reports.fresh, self._allowance
        )
        actor.progress = self._progress
        self._ledger, self._observer, self._actor, self._is_ahead = ledger, observer, actor, False
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
        self._prune(began)
        self._observer.packlimit.refit(self._ledger, began)
        self._traffic.look(began)
        slurm, notes = self._snapshot(), self._leadership.notes()
        self._actor.hear(notes)  # before a pin is taken for its owner's wish
        managed = self._ledger.apply(slurm)
        self._actor.hear(notes)  # of jobs that were met just now
        self.wanted |= WANTED in notes
        for note in notes:
            self._leadership.done(note)
        if self._config.mode == "exact":
            self._take_note(managed)
        self._note_costs(managed)
        profiles = self._profiles.look(managed, slurm.time)
        snapshot = self._observer.observe(slurm, managed, self._actor.intents, profiles)
        self._learn(snapshot)
        plan = decide(snapshot, self._config.policy, self._policy)
        self._carry_out(plan)
        if self._config.mode == "exact":
            self._leave_in_order(self._observer.waiting(managed, slurm.time))
        settled = self._observer.next_settled(managed, slurm.time)
        change = next_change(snapshot, self._config.policy, self._policy)
        postponed = -math.inf if self._allowance.postponed else math.inf
        self.next_change = min(change, settled, self._actor.next_check(self._clock()), postponed)
        leaving = snapshot.jobs.state == State.LEAVING
        others = any(snapshot.jobs.id[row] not in self._actor.intents for row in np.flatnonzero(leaving))
        self.leaving_since = min(self.leaving_since, slurm.time) if others else math.inf
        self._cycles, self.seconds = self._cycles + 1, self._clock() - began
        self._recent.append(self.seconds)
        self._publish(slurm, snapshot, plan, managed, profiles)

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
        self._progress = self._actor.progress = call

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
        problems = self._actor.release_all(self._clock())
        with contextlib.suppress(StateError):
            self._log_news()
        return problems

    def _take_note(self, managed: list[SlurmJob]) -> None:
        now = self._clock()
        self._actor.see(managed)
        self._actor.confirm(now)
        soon = now + self._config.lease_seconds / 2
        self._actor.hold(self._observer.waiting(managed, now), now, before=soon)
        self._actor.collect(managed, now)
        self._actor.let_go(now)

    def _leave_in_order(self, waiting: list[SlurmJob]) -> None:
        """What no start has to wait for."""
        now = self._clock()
        self._actor.hold(waiting, now)
        self._actor.unpin(waiting, now)

    def _note_costs(self, managed: list[SlurmJob]) -> None:
        """What a run says of its start, once it trains."""
        for job in managed:
            report = self._observer.reports.known(job)
            if report:
                row = self._ledger.jobs[job.id]
                self._ledger.note(
                    row, job.restarts, restore=report.restore, save=report.save, redone=report.redone, pace=report.pace
                )

    def _learn(self, snapshot: Snapshot) -> None:
        """From all jobs of the past, as often as the policy wants to."""
        if self._ledger.over >= self._policy.refit_at:
            self._policy = self._policy.fitted(self._ledger.past(), snapshot.jobs)

    def _carry_out(self, plan: Plan) -> None:
        self._promote(plan)
        if self._config.mode == "exact":
            self._actor.begin(plan, self._clock())
            self._actor.advance(self._clock())
        else:
            self._tell(plan)
        self._log_news()

    def _promote(self, plan: Plan) -> None:
        now = self._clock()
        for job_id in plan.promoted:
            row = self._ledger.jobs[job_id]
            row.reset = now
            self._ledger.save(row)
            self._actor.news.append(Decision(now, job_id, "promote", "waited too long: its service counts from 0"))

    def _tell(self, plan: Plan) -> None:
        """Shadow mode: say what would be done, once."""
        would = {one.job: f"would start on {', '.join(node for node, _ in one.nodes)}" for one in plan.starts}
        would |= {one.job: f"would be preempted for job {one.beneficiary}" for one in plan.preemptions}
        now = self._clock()
        self._actor.news += [
            Decision(now, job_id, "shadow", words)
            for job_id, words in would.items()
            if self._would.get(job_id) != words
        ]
        self._would = would

    def _log_news(self) -> None:
        news, self._actor.news = self._actor.news, []
        if not news:
            return
        for one in news:
            log.info("job %s: %s: %s", one.id, one.action, one.why)
            self._actions[one.action] += 1
        with self._journal.batch():
            self._journal.record(news)
        self._decisions = (self._decisions + news)[-SHOWN_DECISIONS:]

    def _publish(
        self,
        slurm: SlurmSnapshot,
        snapshot: Snapshot,
        plan: Plan,
        managed: list[SlurmJob],
        profiles: Mapping[str, Summary],
    ) -> None:
        running = [job for job in managed if job.state == "RUNNING"]
        reports = {job.id: self._observer.reports.of(job) for job in running}
        self.publisher.publish(
            Publication(
                about=self._about(),
                slurm=slurm,
                snapshot=snapshot,
                plan=plan,
                rows=dict(self._ledger.jobs),
                phases={one.id: PHASES.get(one.step, "starting") for one in self._actor.intents.values()},
                unmovable={
                    job.id: self._observer.why_unmovable(job, slurm.time)
                    for job in running
                    if job.id in self._ledger.jobs
                },
                steps={job_id: report.step for job_id, report in reports.items()},
                decisions=tuple(reversed(self._decisions)),
                config=self._config,
                profiles=profiles,
            )
        )

    def _about(self) -> dict[str, object]:
        return {
            "cluster": self._site.cluster, "mode": self._config.mode, "backend": self._backend.name, "slurm": self._version,
            "tiresias": __version__, "pid": os.getpid(), "started": self._started,
            "alarms": [*self._site.alarms, *self._traffic.alarms(self._allowance.postponed)],
            "cycle": {
                "count": self._cycles, "seconds": round(self.seconds, 4), "period": self._config.period,
                "median": round(statistics.median(self._recent), 4), "p99": round(_p99(self._recent), 4),
                "snapshot": round(self.latency, 4),
            },
            "rpc": self._traffic.published(self._allowance.postponed),
            "actions": dict(self._actions),
            "packlimit": self._observer.packlimit.published(), "leader": self._leadership.published(),
            "paused": self._pause and self._pause.published(),
        }  # fmt: skip


class Daemon:
    """The controller with its sockets, its leases and its signals, until SIGTERM or SIGINT: it stands by, and leads, in turns.

    `lead` makes a controller that goes on from the journal, once the lead is ours.
    """

    def __init__(self, config: Config, site: Site, leadership: Leadership, lead: Callable[[], Controller]) -> None:
        self._config, self._site, self._leadership, self._lead = config, site, leadership, lead
        self._run = Path(config.paths.run)
        self._make_run_folder()
        self._primary = Bell(self._run / "primary")
        self._standby = Standby(leadership, Path(config.paths.state), self._primary.rang)
        self._views: Answer = self._standby.answer
        self._controller: Controller  # while we lead
        self._stopping = False
        self._at_once = False  # without waiting for what is under way
        self._pace = Pace(config.period, config.poll)
        self._orders = Orders(lambda request, peer: self._views(request, peer), self._wake)
        self._watchdog = Watchdog()

    def serve(self) -> None:
        pokes = PokeSocket(self._run / "poke.sock")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            with ControlServer(self._run / "control.sock", self._orders.answer):
                notify("READY=1")
                while not self._stopping and self._standby.wait(lambda seconds: self._stand(pokes, seconds)):
                    self._lead_once(pokes)
        finally:
            pokes.close()
            self._primary.close()
            self._leadership.step_down()

    def _stand(self, pokes: PokeSocket, seconds: float) -> bool:
        """By, for that long or until something calls us; False: we are to stop."""
        notify(f"STATUS={self._standby.words}")
        self._watchdog.pet()
        pokes.wait(seconds)
        self._obey()
        return not self._stopping

    def _lead_once(self, pokes: PokeSocket) -> None:
        """Until we are to stop, or somebody else leads."""
        try:
            self._controller = self._lead()
        except (Superseded, Unavailable) as error:  # a stopped leader keeps the journal locked, Slurm fails over
            self._pace.failed()
            log.warning("%s; trying again", error)
            self._leadership.step_down()
            self._stand(pokes, self._pause())
            return
        self._controller.on_progress(self._watchdog.pet)
        self._views = self._controller.publisher.answer
        try:
            self._go_on(pokes)
        except Superseded as error:
            log.warning("%s; standing by", error)
        finally:
            self._views = self._standby.answer
            self._primary.rang()  # while we led: it asks for nothing
            if self._controller.wanted:
                self._standby.after_you()
            self._controller.close()
            self._leadership.step_down()

    def _go_on(self, pokes: PokeSocket) -> None:
        try:
            while not (self._stopping or self._hands_over()):
                self._cycle()
                self._rest(pokes)
                self._obey()
        finally:
            (self._run / "lease").unlink(missing_ok=True)  # first: nothing new is to be held
            self._leave()

    def _hands_over(self) -> bool:
        return self._controller.wanted and self._leadership.has_standby()

    def _leave(self) -> None:
        """Who stands by goes on from the journal, at once. Fail open where nobody does; raises Superseded where somebody leads."""
        self._leadership.check()
        if self._leadership.has_standby() and not self._at_once:
            log.info("another controller stands by and goes on")
            return
        notify("STOPPING=1", "STATUS=lifts its holds")
        for problem in self._controller.release() if self._at_once else self._controller.stop():
            log.warning("%s", problem)

    def _obey(self) -> None:
        for order in self._orders.take():
            log.info("%s ordered by %s%s", order.op, order.by, f": {order.reason}" if order.reason else "")
            try:
                self._orders.done(order, self._outcome(order))
            except Superseded:
                raise
            except TiresiasError as error:
                self._orders.fail(order, error)

    def _outcome(self, order: Order) -> str:
        if not self._leadership.epoch:
            if order.op != STOP:
                raise TiresiasError(f"{self._standby.words}; order it there")
            self._stopping = True
            return "the controller, which stood by, ends"
        if order.op == PAUSE:
            return self._controller.pause(order.by, order.reason)
        if order.op == RESUME:
            return self._controller.resume()
        self._stopping, self._at_once = True, order.release
        if order.release:
            self._controller.forbid(order.by, order.reason)
        return "the controller ends"

    def _cycle(self) -> None:
        try:
            self._controller.cycle()
            self._renew_lease()
            self._pace.answered(self._controller.latency)
            notify(f"STATUS={self._controller.words}")
        except Unavailable as error:
            self._pace.failed()
            log.warning("%s; trying again", error)
            notify(f"STATUS={error}; trying again")
        self._watchdog.pet()

    def _rest(self, pokes: PokeSocket) -> None:
        """Until the next cycle: a poke, the period, or a job under way that got somewhere; never before slurmctld has had its
        rest from us."""
        now = time.monotonic()
        earliest = now + self._least()
        end, woken = max(earliest, now + self._pause()), False
        with contextlib.suppress(Unavailable):
            self._leadership.renew(grace=end - now + HUNG_SECONDS)
        while not self._stopping and now < end:
            self._watchdog.pet()
            polls = self._controller.moving and not self._pace.failures
            slice_ = min(self._config.poll if polls or woken else self._watchdog.every, end - now)
            if woken:
                time.sleep(slice_)
            else:
                woken = pokes.wait(slice_)
            if polls and self._poll():
                woken = True
            now = time.monotonic()
            if woken:
                self._obey()
                end = max(earliest, now)

    def _least(self) -> float:
        """A flood of pokes gets half of our time at most."""
        ours = min(self._controller.seconds, self._config.poll)
        return max(ours, self._pace.rest, self._controller.wait_for_calls())

    def _pause(self) -> float:
        if self._pace.failures:
            return self._pace.back_off()
        now = time.time()
        since = self._controller.leaving_since
        gone = math.inf if math.isinf(since) else (now - since) / 5  # nobody pokes where the hooks are not installed
        return max(self._config.poll, min(self._pace.period, self._controller.next_change - now, gone))

    def _poll(self) -> bool:
        try:
            return self._controller.poll()
        except Unavailable as error:
            log.warning("%s; trying again", error)
            return True

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(Unavailable):  # a second signal, while the holds are lifted already
            poke(self._run / "poke.sock")  # ends the rest at once

    def _make_run_folder(self) -> None:
        try:
            self._run.mkdir(parents=True, exist_ok=True)
            refuse_shared(self._run, "paths.run")
        except OSError as error:
            raise TiresiasError(
                f"run folder {self._run}: {error.strerror}; make it writable or set paths.run"
            ) from None

    def _renew_lease(self) -> None:
        """Tells the job_submit hook until when it may set jobs aside for us, of which partitions, and for how long."""
        if self._config.mode != "exact":
            return
        until, config = int(time.time() + self._config.lease_seconds), self._config
        names = [",".join(one) for one in (config.partitions, config.exempt.users, config.exempt.accounts)]
        lines = [until, names[0], self._site.default_partition, config.admission_wait, *names[1:]]
        temporary = self._run / ".lease"
        temporary.write_text("".join(f"{line}\n" for line in lines))
        temporary.replace(self._run / "lease")


def _p99(seconds: Collection[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100]
