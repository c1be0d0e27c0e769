"""The controller as a service: a cycle once a period and after each poke; sockets, signals, leases.

Of several controllers with the same state folder one leads (leadership.py); a standby takes over when the leader has ended, and
continues from the journal. Fail open: at a normal end, and on `tiresias controller --release`, every hold that it placed is lifted
and Slurm schedules alone, unless there is a standby. A controller that is killed leaves its holds. With `keeps_holds` so does
SIGTERM: the next controller is expected soon, and `tiresias deadman` lifts the holds if none starts.
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

from tiresias.durable.leadership import HUNG_SECONDS, Leadership, Superseded
from tiresias.durable.own_folder import refuse_shared
from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.calls.pace import Pace
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.daemon.configured import Configured
from tiresias.slurm_plugin.failover.standby import Standby
from tiresias.slurm_plugin.sockets.admin_requests import PAUSE, RELOAD, RESUME, STOP, AdminRequest, AdminRequests
from tiresias.slurm_plugin.sockets.control_socket import Answer, ControlServer
from tiresias.slurm_plugin.sockets.hook_lease import HookLease
from tiresias.slurm_plugin.sockets.notifier import Notifier
from tiresias.slurm_plugin.sockets.poke_socket import PokeSocket, poke
from tiresias.slurm_plugin.sockets.systemd import Watchdog, notify

log = logging.getLogger("tiresias")


class Daemon:
    """The controller with its sockets, leases and signals: alternately a standby and the leader, until SIGTERM or SIGINT.

    `lead` makes the controller when the lead is taken; it continues from the journal. `check` raises TiresiasError for a
    configuration that a standby must not adopt; the leader also compares it with the cells of running jobs.
    """

    def __init__(
        self,
        configured: Configured,
        leadership: Leadership,
        lead: Callable[[Configured, Leadership], Controller],
        keeps_holds: bool = False,
        check: Callable[[Configured], None] = lambda configured: None,
    ) -> None:
        self._leadership, self._lead, self._check = leadership, lead, check
        self._adopt(configured)
        self._keeps_holds, self._kept = keeps_holds, False
        self._run = Path(self._config.paths.run)
        self._make_run_folder()
        self._primary = Notifier(self._run / "primary")
        self._standby = Standby(leadership, Path(self._config.paths.state), self._primary.was_notified)
        self._views: Answer = self._standby.answer
        self._controller: Controller  # while this process leads
        self._stopping = False
        self._at_once = False  # whether to stop without completing preemptions in progress
        self._orders = AdminRequests(lambda request, peer: self._views(request, peer), self._wake)
        self._watchdog = Watchdog()

    def _adopt(self, configured: Configured) -> None:
        self._configured, self._config = configured, configured.config
        self._hook_lease = HookLease(configured.config, configured.site.default_partition)
        self._pace = Pace(configured.config.period, configured.config.poll)

    def serve(self) -> None:
        """Run until SIGTERM, SIGINT or an order to stop."""
        pokes = PokeSocket(self._run / "poke.sock")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, lambda *_: self._orders.give(RELOAD, "SIGHUP"))
        try:
            with ControlServer(self._run / "control.sock", self._orders.answer):
                notify("READY=1")
                while not self._stopping and self._standby.wait(lambda seconds: self._wait_as_standby(pokes, seconds)):
                    self._lead_once(pokes)
        finally:
            pokes.close()
            self._primary.close()
            self._leadership.step_down()

    def _wait_as_standby(self, pokes: PokeSocket, seconds: float) -> bool:
        """Wait as a standby, until `seconds` have passed or a poke arrives; return False to stop."""
        notify(f"STATUS={self._standby.words}")
        self._watchdog.keep_alive()
        pokes.wait(seconds)
        self._execute_orders()
        return not self._stopping

    def _lead_once(self, pokes: PokeSocket) -> None:
        """Lead until this process stops or another controller leads."""
        try:
            self._controller = self._lead(self._configured, self._leadership)
        except (Superseded, Unavailable) as error:  # a stopped leader keeps the journal locked, Slurm fails over
            self._pace.failed()
            log.warning("%s; trying again", error)
            self._leadership.step_down()
            self._wait_as_standby(pokes, self._pause())
            return
        self._controller.on_progress(self._watchdog.keep_alive)
        self._controller.before_publication = self._renew_hook_lease
        self._views = self._controller.publisher.answer
        try:
            self._run_cycles(pokes)
        except Superseded as error:
            log.warning("%s; this controller is a standby now", error)
        finally:
            self._views = self._standby.answer
            self._primary.was_notified()  # a notification during the lead is obsolete
            if self._controller.hand_over_requested:
                self._standby.yield_lead()
            self._controller.close()
            self._leadership.step_down()

    def _run_cycles(self, pokes: PokeSocket) -> None:
        try:
            while not (self._stopping or self._hands_over()):
                self._cycle()
                self._rest(pokes)
                self._execute_orders()
        finally:
            if not self._kept:
                self._hook_lease.end()  # first, so that no further job is held
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

    def _execute_orders(self) -> None:
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
            return "the standby controller ends"
        if order.op == PAUSE:
            return self._controller.switches.pause(order.by, order.reason)
        if order.op == RESUME:
            return self._controller.switches.resume()
        self._stopping, self._at_once, self._kept = True, order.release, False
        if order.release:
            self._controller.switches.forbid(order.by, order.reason)
        return "the controller ends"

    def _reload(self) -> str:
        """Return the changes as text. Raises TiresiasError: then the old configuration stays in force."""
        configured, changes = self._configured.again()
        if changes and self._leadership.epoch:
            self._controller.reconfigure(configured.config, configured.site, changes)
        elif changes:
            self._check(configured)
        self._adopt(configured)
        self._leadership.retime(self._config.leader_seconds)
        for change in changes:
            log.info("%s", change)
        return "reloaded: " + ("; ".join(changes) or "nothing changed")

    def _cycle(self) -> None:
        try:
            self._controller.cycle()
            self._pace.answered(self._controller.times.latency)
            notify(f"STATUS={self._controller.words}")
        except Unavailable as error:
            self._pace.failed()
            log.warning("%s; trying again", error)
            notify(f"STATUS={error}; trying again")
        self._watchdog.keep_alive()

    def _renew_hook_lease(self) -> list[str]:
        """Renew the lease of job_submit.lua before a cycle is published; return why that failed."""
        self._hook_lease.renew()
        return self._hook_lease.alarms

    def _rest(self, pokes: PokeSocket) -> None:
        """Wait for the next cycle: for a poke, the end of the period, or the progress of a transition; never shorter than the
        pause that the load of slurmctld requires."""
        now = time.monotonic()
        earliest = now + self._shortest_pause()
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
                self._execute_orders()
                end = max(earliest, now)

    def _shortest_pause(self) -> float:
        """Return the shortest pause in seconds: after a flood of pokes, cycles take half of the time at most."""
        cycle = min(self._controller.times.seconds, self._config.poll)
        return max(cycle, self._pace.rest, self._controller.wait_for_calls())

    def _pause(self) -> float:
        if self._pace.failures:
            return self._pace.back_off()
        now = time.time()
        since = self._controller.leaving_since
        gone = math.inf if math.isinf(since) else (now - since) / 5  # without the hooks there are no pokes
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
        with contextlib.suppress(Unavailable):  # a second signal, while the holds are being lifted
            poke(self._run / "poke.sock")  # ends the wait at once

    def _make_run_folder(self) -> None:
        try:
            self._run.mkdir(parents=True, exist_ok=True)
            refuse_shared(self._run, "paths.run")
        except OSError as error:
            raise TiresiasError(
                f"run folder {self._run}: {error.strerror}; make it writable or set paths.run"
            ) from None
