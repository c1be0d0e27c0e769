"""The live view of `tiresias status --watch`: it waits for keys, signals and the next look at the controller, and draws.

When the controller goes away the last frame stays, under a line that says so; it goes on when one answers again.
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
from tiresias.slurm_plugin.commands.status import ask_status
from tiresias.slurm_plugin.sockets.admin_requests import OUTCOME, STOP
from tiresias.slurm_plugin.sockets.control_socket import ask
from tiresias.slurm_plugin.views.jobs import listed_jobs
from tiresias.slurm_plugin.views.symbols import Symbols
from tiresias.slurm_plugin.views.user_filter import jobs_of
from tiresias.slurm_plugin.watch.frame import Frame, Scene
from tiresias.slurm_plugin.watch.keys import Decoder
from tiresias.slurm_plugin.watch.listing import listed
from tiresias.slurm_plugin.watch.screen import Screen, signals
from tiresias.slurm_plugin.watch.view_state import Page, Sight, ViewState, pressed, seen

LOOK = 0.5  # seconds between two looks at the controller, at least
# a look that takes long is followed by a rest of so many times that, but of so many seconds at most
EASE, REST = 20, 5.0
PATIENCE = 2.0  # seconds for an answer; meanwhile no key is heard
TICK = 1.0  # seconds after which the ages on the screen are counted anew
SILENCE = 0.05  # seconds after which an ESC was the key
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def watch(path: Path, console: Console, admin: bool, user: str = "") -> int:
    """The exit code. `user`: only this user's jobs are listed, "" for all.

    Raises TiresiasError when no controller answers at the start.
    """
    live = _Live(path, console, admin, user)
    keyboard = sys.stdin.fileno() if sys.stdin.isatty() else None
    screen = Screen(keyboard, sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.errors or "replace")
    with signals(*_ENDS, signal.SIGWINCH, signal.SIGTSTP) as told, screen:
        return live.run(screen, told)


class _Live:
    def __init__(self, path: Path, console: Console, admin: bool, user: str) -> None:
        self._path, self._console, self._user = path, console, user
        self._state, self._keys, self._symbols = ViewState(admin=admin), Decoder(), Symbols()
        self._problem = ""
        self._take(ask_status(path))
        self._explanation: Explanation | str = ""
        self._order = 0  # that is being carried out
        self._look_at = time.monotonic() + LOOK
        self._drawn_at = 0.0  # 0: what is drawn is not so any more
        self._ended_by = 0

    def run(self, screen: Screen, told: int) -> int:
        while not (self._state.over or self._ended_by):
            if time.monotonic() - self._drawn_at >= TICK:
                self._draw(screen)
            self._wait(screen, told)
            if time.monotonic() >= self._look_at:
                self._look()
        return 128 + self._ended_by if self._ended_by not in (0, signal.SIGINT) else 0

    def _draw(self, screen: Screen) -> None:
        self._settle(screen)
        lines = self._frame(screen).lines()
        try:
            screen.draw(lines)
        except OSError:
            self._ended_by = signal.SIGHUP  # the terminal is gone
        self._drawn_at = time.monotonic()

    def _wait(self, screen: Screen, told: int) -> None:
        """For a key or a signal, but only until the next look or tick."""
        rest = max(min(self._look_at, self._drawn_at + TICK) - time.monotonic(), 0.0)
        sources = [told] + ([screen.keyboard] if screen.keyboard is not None else [])
        ready, _, _ = select.select(sources, [], [], SILENCE if self._keys.waits else rest)
        if told in ready:
            self._signalled(screen, os.read(told, 64))
        elif ready:
            self._typed(screen, _read(sources[-1]))
        elif self._keys.waits:
            self._press(screen, self._keys.settle())
        else:
            return
        self._drawn_at = 0.0

    def _signalled(self, screen: Screen, numbers: bytes) -> None:
        self._ended_by = next((number for number in numbers if number in _ENDS), 0)
        if signal.SIGTSTP in numbers:
            screen.__exit__()
            os.kill(os.getpid(), signal.SIGSTOP)
            screen.__enter__()
        screen.forget()

    def _typed(self, screen: Screen, data: bytes) -> None:
        if data:
            self._press(screen, self._keys.feed(data))
        else:
            self._ended_by = signal.SIGHUP  # as above

    def _press(self, screen: Screen, keys: list[str]) -> None:
        for key in keys:
            before, self._state = self._state, pressed(self._state, key, self._sight(screen))
            if key == "redraw":
                screen.forget()
            self._relist()
            self._settle(screen)
            if (self._state.page, self._state.subject) != (before.page, before.subject):
                self._explain()
            if self._state.over:
                return
            if self._state.question:  # it is not answered by what was typed before it was asked
                return screen.discard_typed()
            if self._state.order:
                self._give()

    def _look(self) -> None:
        began, before = time.monotonic(), (self._status, self._problem, self._state)
        try:
            self._take(ask_status(self._path, PATIENCE))
            self._problem = ""
            self._see_order()
        except TiresiasError as error:
            self._problem = str(error)
        if (self._status, self._problem, self._state) != before:
            self._explain()
            self._drawn_at = 0.0
        now = time.monotonic()
        self._look_at = now + max(LOOK, min(EASE * (now - began), REST))

    def _explain(self) -> None:
        if self._state.page is Page.EXPLAIN:
            try:
                answer = ask(self._path, {"op": "explain", "job": self._state.subject}, PATIENCE)
                self._explanation = cast(Explanation, answer)
            except TiresiasError as error:
                self._explanation = str(error)

    def _give(self) -> None:
        """The order that was confirmed, to the controller: it may refuse."""
        op = self._state.order
        request = {"op": op, "release": True} if op == STOP else {"op": op}
        try:
            self._order = ask(self._path, request, PATIENCE)["order"]
            self._state = replace(self._state, order="", note=f"{op}: told the controller")
        except TiresiasError as error:
            self._state = replace(self._state, order="", note=str(error))
        self._look_at = time.monotonic()

    def _see_order(self) -> None:
        if not self._order:
            return
        try:
            outcome = ask(self._path, {"op": OUTCOME, "order": self._order}, PATIENCE)["outcome"]
        except Unavailable:
            self._order = 0  # another controller knows nothing of it
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
        self._state = seen(self._state, self._sight(screen))

    def _sight(self, screen: Screen) -> Sight:
        frame = self._frame(screen)
        return Sight(self._ids, frame.rows, len(frame.text()))

    def _frame(self, screen: Screen) -> Frame:
        scene = Scene(self._status, self._jobs, self._known, self._explanation, self._problem, self._user)
        return Frame(scene, self._state, *screen.size(), time.time(), self._console)


def _read(keyboard: int) -> bytes:
    try:
        return os.read(keyboard, 1024)
    except OSError:
        return b""
