"""The controller: observe -> decide -> act -> publish, once a period and whenever somebody pokes.

Fail open: at a normal end, and on `tiresias controller --release`, every hold that it placed is lifted and Slurm
carries on alone. A controller that is killed leaves its holds; the next one goes on from the journal.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from tiresias import __version__
from tiresias.errors import TiresiasError, Unavailable
from tiresias.profiler.summary import Summary
from tiresias.scheduler.decide import decide, next_change
from tiresias.scheduler.model import Plan, Snapshot, State
from tiresias.scheduler.policies import POLICIES
from tiresias.slurm_plugin import topology
from tiresias.slurm_plugin.act import Actor
from tiresias.slurm_plugin.backends.protocol import Backend, SlurmJob, SlurmSnapshot, SlurmUnavailable
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.control_socket import ControlServer, PokeSocket, poke
from tiresias.slurm_plugin.journal import Decision, Journal
from tiresias.slurm_plugin.ledger import Ledger
from tiresias.slurm_plugin.observe import Observer
from tiresias.slurm_plugin.orders import PAUSE, RESUME, Order, Orders
from tiresias.slurm_plugin.profiles import Profiles
from tiresias.slurm_plugin.publication import PHASES, SHOWN_DECISIONS, Publication, Publisher
from tiresias.slurm_plugin.scope import Scope
from tiresias.slurm_plugin.site import Site
from tiresias.slurm_plugin.switches import PAUSED, pause, resume, stop, switched
from tiresias.slurm_plugin.systemd import Watchdog, notify

log = logging.getLogger("tiresias")

TOPOLOGY_SECONDS = 300.0  # between two looks at Slurm's switches
LAST_MOVES_SECONDS = 10.0  # what a stopping controller gives the preemptions under way


class Controller:
    """One cycle at a time. `clock` gives epoch seconds."""

    def __init__(
        self, config: Config, backend: Backend, journal: Journal, site: Site, clock: Callable[[], float] = time.time
    ) -> None:
        self._config, self._backend, self._journal, self._site, self._clock = config, backend, journal, site, clock
        self._ledger = Ledger(journal, Scope.of(config))
        self._observer = Observer(config, self._ledger)
        self._profiles = Profiles(config.paths.control)
        self._policy = POLICIES[config.policy.name]
        self._actor = Actor(backend, journal, self._ledger, config.preemption, self._observer.reports.fresh)
        self._started, self._cycles, self.seconds = clock(), 0, 0.0
        self._would: dict[str, str] = {}  # shadow mode: what was said last of each job
        self._decisions = list(reversed(journal.decisions(limit=SHOWN_DECISIONS)))
        self._version, self._topology_at = backend.version(), -math.inf
        self.publisher = Publisher(journal.path)
        self._heed_pause()
        self.leaving = False  # somebody is about to free GPUs
        self.next_change = (
            math.inf
        )  # when the plan changes though nothing happens: a threshold is crossed, a wait too long

    @property
    def moving(self) -> bool:
        """Something is under way that only looking again will tell about."""
        return any(intent.step != "confirm" for intent in self._actor.intents.values())  # starts: next_check

    def cycle(self) -> None:
        """Raises SlurmUnavailable when Slurm does not answer; nothing is lost, the next cycle goes on."""
        began = self._clock()
        if self._config.mode == "exact":
            self._actor.advance(began)  # before the snapshot, so that it shows what was done
        self._look_at_topology(began)
        self._observer.packlimit.refit(self._ledger, began)
        slurm = self._backend.snapshot()
        managed = self._ledger.apply(slurm)
        if self._config.mode == "exact":
            self._take_note(managed)
        self._note_costs(managed)
        profiles = self._profiles.look(managed, slurm.time)
        snapshot = self._observer.observe(slurm, managed, self._actor.intents, profiles)
        self._learn(snapshot)
        plan = decide(snapshot, self._config.policy, self._policy)
        self._carry_out(plan)
        if self._config.mode == "exact":
            self._actor.unpin(self._observer.waiting(managed, slurm.time), self._clock())  # last: no start waits for it
        settled = self._observer.next_settled(managed, slurm.time)
        change = next_change(snapshot, self._config.policy, self._policy)
        self.next_change = min(change, settled, self._actor.next_check(self._clock()))
        self.leaving = bool((snapshot.jobs.state == State.LEAVING).any())
        self._cycles, self.seconds = self._cycles + 1, self._clock() - began
        self._publish(slurm, snapshot, plan, managed, profiles)

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

    def poll(self) -> bool:
        """Look at what is under way, without a snapshot; True when something came a step further."""
        before = self._actor.steps()
        self._actor.advance(self._clock())
        return self._actor.steps() != before

    def on_progress(self, call: Callable[[], None]) -> None:
        """Called in the middle of long cycles, too, wherever some of their work is done."""
        self._actor.progress = call

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

    def stop(self) -> list[str]:
        """Finish the preemptions under way, then lift our holds. Returns what could not be lifted."""
        deadline = self._clock() + LAST_MOVES_SECONDS
        try:
            while self.moving and self._clock() < deadline:
                self.poll()
                time.sleep(self._config.poll)
        except SlurmUnavailable as error:
            log.warning("%s", error)
        return self.release()

    def release(self) -> list[str]:
        problems = self._actor.release_all(self._clock())
        self._log_news()
        return problems

    def _take_note(self, managed: list[SlurmJob]) -> None:
        now = self._clock()
        self._actor.see(managed)
        self._actor.confirm(now)
        self._actor.hold(self._observer.waiting(managed, now), now)
        self._actor.collect(managed, now)
        self._actor.let_go(now)

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
            "tiresias": __version__, "pid": os.getpid(), "started": self._started, "alarms": list(self._site.alarms),
            "cycle": {"count": self._cycles, "seconds": round(self.seconds, 4), "period": self._config.period},
            "packlimit": self._observer.packlimit.published(),
            "paused": self._pause and self._pause.published(),
        }  # fmt: skip


class Daemon:
    """The controller with its sockets, its lease and its signals, until SIGTERM or SIGINT."""

    def __init__(self, config: Config, controller: Controller, site: Site) -> None:
        self._config, self._controller, self._site = config, controller, site
        self._run = Path(config.paths.run)
        self._stopping = False
        self._at_once = False  # without waiting for what is under way
        self._failures = 0
        self._orders = Orders(controller.publisher.answer, self._wake)
        self._watchdog = Watchdog()
        controller.on_progress(self._watchdog.pet)

    def serve(self) -> None:
        self._make_run_folder()
        pokes = PokeSocket(self._run / "poke.sock")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            with ControlServer(self._run / "control.sock", self._orders.answer):
                notify("READY=1")
                while not self._stopping:
                    self._cycle()
                    self._rest(pokes)
                    self._obey()
        finally:
            notify("STOPPING=1", "STATUS=lifts its holds")
            (self._run / "lease").unlink(missing_ok=True)  # first: nothing new is to be held
            pokes.close()
            for problem in self._controller.release() if self._at_once else self._controller.stop():
                log.warning("%s", problem)

    def _obey(self) -> None:
        for order in self._orders.take():
            log.info("%s ordered by %s%s", order.op, order.by, f": {order.reason}" if order.reason else "")
            self._orders.done(order, self._outcome(order))

    def _outcome(self, order: Order) -> str:
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
            self._failures = 0
            notify(f"STATUS={self._controller.words}")
        except SlurmUnavailable as error:
            self._failures += 1
            log.warning("%s; trying again", error)
            notify(f"STATUS={error}; trying again")
        self._watchdog.pet()

    def _rest(self, pokes: PokeSocket) -> None:
        """Until the next cycle: a poke, the period, or a job under way that got somewhere."""
        time.sleep(min(self._controller.seconds, self._config.poll))  # a flood of pokes gets half of our time at most
        now = time.monotonic()
        end = now + self._pause()
        while not self._stopping and now < end:
            polls = self._controller.moving and not self._failures
            slice_ = self._config.poll if polls else self._watchdog.every
            self._watchdog.pet()
            if pokes.wait(min(slice_, end - now)) or (polls and self._poll()):
                return
            now = time.monotonic()

    def _pause(self) -> float:
        if self._failures:
            return float(min(2.0 ** min(self._failures, 10) * self._config.poll, self._config.period))
        if self._controller.leaving:
            return self._config.poll
        return max(self._config.poll, min(self._config.period, self._controller.next_change - time.time()))

    def _poll(self) -> bool:
        try:
            return self._controller.poll()
        except SlurmUnavailable as error:
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
