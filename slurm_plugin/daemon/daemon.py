"""The controller as a service: a cycle once a period and whenever somebody pokes; sockets, signals, leases.

Of several with the same state folder one leads (leadership.py); another takes over when that one is gone, and goes on from the
journal. Fail open: at a normal end, and on `tiresias controller --release`, every hold that it placed is lifted and Slurm carries
on alone, unless there is a standby. A controller that is killed leaves its holds. With `keeps_holds` so does SIGTERM: the
next controller is expected soon, and `tiresias deadman` lifts the holds when none comes.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.calls.pace import Pace
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.daemon.configured import Configured
from tiresias.slurm_plugin.failover.standby import Standby
from tiresias.slurm_plugin.lead.leadership import HUNG_SECONDS, Leadership, Superseded
from tiresias.slurm_plugin.sockets.admin_requests import PAUSE, RELOAD, RESUME, STOP, AdminRequest, AdminRequests
from tiresias.slurm_plugin.sockets.control_socket import Answer, ControlServer, PokeSocket, poke
from tiresias.slurm_plugin.sockets.hook_lease import HookLease
from tiresias.slurm_plugin.sockets.notifier import Notifier
from tiresias.slurm_plugin.sockets.systemd import Watchdog, notify
from tiresias.slurm_plugin.state.own_folder import refuse_shared

log = logging.getLogger("tiresias")


class Daemon:
    """The controller with its sockets, its leases and its signals, until SIGTERM or SIGINT: it stands by, and leads, in turns.

    `lead` makes a controller that goes on from the journal, once the lead is ours.
    """

    def __init__(
        self, configured: Configured, leadership: Leadership, lead: Callable[[Configured, Leadership], Controller],
        keeps_holds: bool = False,
    ) -> None:  # fmt: skip
        self._leadership, self._lead = leadership, lead
        self._adopt(configured)
        self._keeps_holds, self._kept = keeps_holds, False
        self._run = Path(self._config.paths.run)
        self._make_run_folder()
        self._primary = Notifier(self._run / "primary")
        self._standby = Standby(leadership, Path(self._config.paths.state), self._primary.was_notified)
        self._views: Answer = self._standby.answer
        self._controller: Controller  # while we lead
        self._stopping = False
        self._at_once = False  # without waiting for what is under way
        self._orders = AdminRequests(lambda request, peer: self._views(request, peer), self._wake)
        self._watchdog = Watchdog()

    def _adopt(self, configured: Configured) -> None:
        self._configured, self._config = configured, configured.config
        self._hook_lease = HookLease(configured.config, configured.site.default_partition)
        self._pace = Pace(configured.config.period, configured.config.poll)

    def serve(self) -> None:
        pokes = PokeSocket(self._run / "poke.sock")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, lambda *_: self._orders.give(RELOAD, "SIGHUP"))
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
        self._watchdog.keep_alive()
        pokes.wait(seconds)
        self._obey()
        return not self._stopping

    def _lead_once(self, pokes: PokeSocket) -> None:
        """Until we are to stop, or somebody else leads."""
        try:
            self._controller = self._lead(self._configured, self._leadership)
        except (Superseded, Unavailable) as error:  # a stopped leader keeps the journal locked, Slurm fails over
            self._pace.failed()
            log.warning("%s; trying again", error)
            self._leadership.step_down()
            self._stand(pokes, self._pause())
            return
        self._controller.on_progress(self._watchdog.keep_alive)
        self._controller.more_alarms = lambda: self._hook_lease.alarms
        self._views = self._controller.publisher.answer
        try:
            self._go_on(pokes)
        except Superseded as error:
            log.warning("%s; standing by", error)
        finally:
            self._views = self._standby.answer
            self._primary.was_notified()  # while we led: it asks for nothing
            if self._controller.hand_over_requested:
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
            if not self._kept:
                self._hook_lease.end()  # first: nothing new is to be held
            self._leave()

    def _hands_over(self) -> bool:
        return self._controller.hand_over_requested and self._leadership.has_standby()

    def _leave(self) -> None:
        """Fail open, unless a standby continues from the journal. Raises Superseded where another controller leads."""
        self._leadership.check()
        if self._leadership.has_standby() and not self._at_once:
            log.info("a standby continues")
            return
        if self._kept and not self._configured.moves_its_state():
            log.info("the holds stay for the next controller; `tiresias deadman` lifts them when none comes")
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
                log.warning("%s: %s", order.op, error)
                self._orders.fail(order, error)

    def _outcome(self, order: AdminRequest) -> str:
        if order.op == RELOAD:
            return self._reload()
        if not self._leadership.epoch:
            if order.op != STOP:
                raise TiresiasError(f"{self._standby.words}; order it there")
            self._stopping = True
            return "the controller, which stood by, ends"
        if order.op == PAUSE:
            return self._controller.switches.pause(order.by, order.reason)
        if order.op == RESUME:
            return self._controller.switches.resume()
        self._stopping, self._at_once, self._kept = True, order.release, False
        if order.release:
            self._controller.switches.forbid(order.by, order.reason)
        return "the controller ends"

    def _reload(self) -> str:
        """What changed, in words. Raises TiresiasError: then the old configuration stays in force."""
        configured, changes = self._configured.again()
        if changes and self._leadership.epoch:
            self._controller.reconfigure(configured.config, configured.site, changes)
        self._adopt(configured)
        self._leadership.retime(self._config.leader_seconds)
        for change in changes:
            log.info("%s", change)
        return "reloaded: " + ("; ".join(changes) or "nothing changed")

    def _cycle(self) -> None:
        try:
            self._controller.cycle()
            self._hook_lease.renew()
            self._pace.answered(self._controller.times.latency)
            notify(f"STATUS={self._controller.words}")
        except Unavailable as error:
            self._pace.failed()
            log.warning("%s; trying again", error)
            notify(f"STATUS={error}; trying again")
        self._watchdog.keep_alive()

    def _rest(self, pokes: PokeSocket) -> None:
        """Until the next cycle: a poke, the period, or a job under way that got somewhere; never before slurmctld has had its
        rest from us."""
        now = time.monotonic()
        earliest = now + self._least()
        end, woken = max(earliest, now + self._pause()), False
        with contextlib.suppress(Unavailable):
            self._leadership.renew(grace=end - now + HUNG_SECONDS)
        while not self._stopping and now < end:
            self._watchdog.keep_alive()
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
        ours = min(self._controller.times.seconds, self._config.poll)
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

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._kept = self._keeps_holds and number == signal.SIGTERM and not self._stopping
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
