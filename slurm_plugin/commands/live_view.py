"""The live view of `tiresias status --watch`: waits for keys, signals and the next poll of the controller, and draws.

When the controller stops answering, the last frame stays below a line that reports it, until one answers again.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

from rich.console import Console

from tiresias.errors import TiresiasError, Unavailable
from tiresias.protocol.explanation import Explanation
from tiresias.protocol.status import Status
from tiresias.slurm_plugin.sockets.admin_requests import OUTCOME, STOP
from tiresias.slurm_plugin.sockets.control_client import ask
from tiresias.slurm_plugin.sockets.published_status import ask_status
from tiresias.slurm_plugin.views.jobs import listed_jobs
from tiresias.slurm_plugin.views.symbols import Symbols
from tiresias.slurm_plugin.views.user_filter import jobs_of
from tiresias.slurm_plugin.watch.frame import Frame, Scene
from tiresias.slurm_plugin.watch.keys import Decoder
from tiresias.slurm_plugin.watch.listing import listed
from tiresias.slurm_plugin.watch.screen import SIGNALS, Screen, signals
from tiresias.slurm_plugin.watch.view_state import Page, ScreenContents, ViewState, after_key, after_update

POLL_INTERVAL_S = 0.5  # shortest time between two polls of the controller
POLL_REST_FACTOR, MAX_POLL_REST_S = 20, 5.0  # pause after a slow poll: this multiple of its time, at most so long
ANSWER_TIMEOUT_S = 2.0  # keys are not read meanwhile
REDRAW_INTERVAL_S = 1.0  # time after which the ages on the screen are updated
ESCAPE_DELAY_S = 0.05  # time without a byte after which ESC is the escape key


def watch(path: Path, console: Console, admin: bool, user: str = "") -> int:
    """Show the live view until it is ended and return the exit code.

    Args:
        path: the control socket
        console: standard output
        admin: whether keys may send orders to the controller
        user: only jobs of this user are listed, "" for all users

    Raises:
        TiresiasError: no controller answers at the start.
    """
    live = _Live(path, console, admin, user)
    keyboard = sys.stdin.fileno() if sys.stdin.isatty() else None
    screen = Screen(keyboard, sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.errors or "replace")
    with signals(*SIGNALS) as signal_pipe, screen:
        return live.run(screen, signal_pipe)


class _Live:
    def __init__(self, path: Path, console: Console, admin: bool, user: str) -> None:
        self._path, self._console, self._user = path, console, user
        self._state, self._keys, self._symbols = ViewState(admin=admin), Decoder(), Symbols()
        self._problem = ""
        self._take(ask_status(path))
        self._explanation: Explanation | str = ""
        self._order = 0  # number of the order in progress
        self._next_poll = time.monotonic() + POLL_INTERVAL_S
        self._drawn_at = 0.0  # 0: the drawing is outdated
        self._ended_by = 0

    def run(self, screen: Screen, signal_pipe: int) -> int:
        while not (self._state.over or self._ended_by):
            if time.monotonic() - self._drawn_at >= REDRAW_INTERVAL_S:
                self._draw(screen)
            self._wait(screen, signal_pipe)
            if time.monotonic() >= self._next_poll:
                self._poll()
        return 128 + self._ended_by if self._ended_by not in (0, signal.SIGINT) else 0

    def _draw(self, screen: Screen) -> None:
        self._settle(screen)
        lines = self._frame(screen).lines()
        try:
            screen.draw(lines)
        except OSError:
            self._ended_by = signal.SIGHUP  # the terminal is gone
        self._drawn_at = time.monotonic()

    def _wait(self, screen: Screen, signal_pipe: int) -> None:
        """Wait for a key or a signal until the next poll or redraw."""
        rest = max(min(self._next_poll, self._drawn_at + REDRAW_INTERVAL_S) - time.monotonic(), 0.0)
        sources = [signal_pipe] + ([screen.keyboard] if screen.keyboard is not None else [])
        ready, _, _ = select.select(sources, [], [], ESCAPE_DELAY_S if self._keys.waits else rest)
        if signal_pipe in ready:
            self._ended_by = screen.after_signals(os.read(signal_pipe, 64))
        elif ready:
            self._typed(screen, _read(sources[-1]))
        elif self._keys.waits:
            self._press(screen, self._keys.settle())
        else:
            return
        self._drawn_at = 0.0

    def _typed(self, screen: Screen, data: bytes) -> None:
        if data:
            self._press(screen, self._keys.feed(data))
        else:
            self._ended_by = signal.SIGHUP  # as above

    def _press(self, screen: Screen, keys: list[str]) -> None:
        for key in keys:
            before, self._state = self._state, after_key(self._state, key, self._contents(screen))
            if key == "redraw":
                screen.forget()
            self._relist()
            self._settle(screen)
            if (self._state.page, self._state.subject) != (before.page, before.subject):
                self._explain()
            if self._state.over:
                return
            if self._state.question:  # keys typed before the question are no answer
                return screen.discard_typed()
            if self._state.order:
                self._give()

    def _poll(self) -> None:
        began, before = time.monotonic(), (self._status, self._problem, self._state)
        try:
            self._take(ask_status(self._path, ANSWER_TIMEOUT_S))
            self._problem = ""
            self._see_order()
        except TiresiasError as error:
            self._problem = str(error)
        if (self._status, self._problem, self._state) != before:
            self._explain()
            self._drawn_at = 0.0
        now = time.monotonic()
        self._next_poll = now + max(POLL_INTERVAL_S, min(POLL_REST_FACTOR * (now - began), MAX_POLL_REST_S))

    def _explain(self) -> None:
        if self._state.page is Page.EXPLAIN:
            try:
                answer = ask(self._path, {"op": "explain", "job": self._state.subject}, ANSWER_TIMEOUT_S)
                self._explanation = cast(Explanation, answer)
            except TiresiasError as error:
                self._explanation = str(error)

    def _give(self) -> None:
        """Send the confirmed order to the controller, which may refuse it."""
        op = self._state.order
        request = {"op": op, "release": True} if op == STOP else {"op": op}
        try:
            self._order = ask(self._path, request, ANSWER_TIMEOUT_S)["order"]
            self._state = replace(self._state, order="", note=f"{op}: sent to the controller")
        except TiresiasError as error:
            self._state = replace(self._state, order="", note=str(error))
        self._next_poll = time.monotonic()

    def _see_order(self) -> None:
        if not self._order:
            return
        try:
            outcome = ask(self._path, {"op": OUTCOME, "order": self._order}, ANSWER_TIMEOUT_S)["outcome"]
        except Unavailable:
            self._order = 0  # another controller has no record of the order
            raise
        except TiresiasError as error:
            outcome = str(error)
        if outcome is not None:
            self._order, self._state = 0, replace(self._state, note=str(outcome))

    def _take(self, status: Status) -> None:
        self._status = status
        self._known = self._symbols.of(status.get("jobs", []))
        self._relist()

    def _relist(self) -> None:
        state, jobs = self._state, jobs_of(listed_jobs(self._status), self._user)
        self._jobs = listed(jobs, state.sort, state.reverse, state.filter)
        self._ids = [job["id"] for job in self._jobs]

    def _settle(self, screen: Screen) -> None:
        self._state = after_update(self._state, self._contents(screen))

    def _contents(self, screen: Screen) -> ScreenContents:
        frame = self._frame(screen)
        return ScreenContents(self._ids, frame.rows, len(frame.text()))

    def _frame(self, screen: Screen) -> Frame:
        scene = Scene(self._status, self._jobs, self._known, self._explanation, self._problem, self._user)
        return Frame(scene, self._state, *screen.size(), time.time(), self._console)


def _read(keyboard: int) -> bytes:
    try:
        return os.read(keyboard, 1024)
    except OSError:
        return b""
