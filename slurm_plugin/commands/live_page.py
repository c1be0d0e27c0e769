"""A live view of one page: it is asked for again each second, drawn, and ended by q or a signal.

When an answer is missing, the last frame stays below a line that reports it, until there is one again.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from rich.console import Console, Group, RenderableType

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.views.table_layout import FAINT, styled
from tiresias.slurm_plugin.views.text import printable
from tiresias.slurm_plugin.watch.frame import ansi_lines
from tiresias.slurm_plugin.watch.keys import Decoder
from tiresias.slurm_plugin.watch.screen import SIGNALS, Screen, signals

POLL_INTERVAL_S = 1.0  # between two polls, and two drawings
POLL_REST_FACTOR = 20  # the pause after a slow poll is this multiple of its time


class LivePage:
    """The base of a live view; it is asked for its page once before it begins.

    Args:
        console: Standard output.

    Raises:
        TiresiasError: There is no answer at the start.
    """

    hints = "q quit"

    def __init__(self, console: Console) -> None:
        self._console = console
        self._keys, self._problem, self._ended_by, self._over = Decoder(), "", 0, False
        self.ask()
        self._next_poll = time.monotonic() + POLL_INTERVAL_S

    def ask(self) -> None:
        """Get the content of the page anew. Raises TiresiasError."""
        raise NotImplementedError

    def page(self, width: int, height: int) -> RenderableType:
        """Return the page in at most `height` lines of `width` cells."""
        raise NotImplementedError

    def press(self, key: str) -> None:
        """Carry out a key of the view's own."""

    def show(self) -> int:
        """Show the view until it is ended and return the exit code."""
        keyboard = sys.stdin.fileno() if sys.stdin.isatty() else None
        screen = Screen(keyboard, sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.errors or "replace")
        with signals(*SIGNALS) as signal_pipe, screen:
            return self._run(screen, signal_pipe)

    def _run(self, screen: Screen, signal_pipe: int) -> int:
        while not (self._over or self._ended_by):
            try:
                screen.draw(self._lines(*screen.size()))
            except OSError:
                return 128 + signal.SIGHUP  # the terminal is gone
            self._wait(screen, signal_pipe)
            if time.monotonic() >= self._next_poll:
                self._poll()
        return 128 + self._ended_by if self._ended_by not in (0, signal.SIGINT) else 0

    def _lines(self, width: int, height: int) -> list[str]:
        above = [styled((printable(self._problem, width), "bold white on red"))] if self._problem else []
        body = self.page(width, height - 1 - len(above))
        lines = ansi_lines(Group(*above, body), width, self._console)
        blank = [""] * (height - 1 - len(lines))
        return [*lines, *blank, *ansi_lines(styled((self.hints, FAINT)), width, self._console)]

    def _wait(self, screen: Screen, signal_pipe: int) -> None:
        """Wait for a key or a signal until the next poll."""
        sources = [signal_pipe] + ([screen.keyboard] if screen.keyboard is not None else [])
        ready, _, _ = select.select(sources, [], [], max(self._next_poll - time.monotonic(), 0.0))
        if signal_pipe in ready:
            self._ended_by = screen.after_signals(os.read(signal_pipe, 64))
        elif ready:
            for key in self._keys.feed(os.read(sources[-1], 1024)):
                self._press(screen, key)

    def _press(self, screen: Screen, key: str) -> None:
        if key == "q":
            self._over = True
        elif key == "redraw":
            screen.forget()
        else:
            self.press(key)

    def _poll(self) -> None:
        began = time.monotonic()
        try:
            self.ask()
            self._problem = ""
        except TiresiasError as error:
            self._problem = str(error)
        now = time.monotonic()
        self._next_poll = now + max(POLL_INTERVAL_S, POLL_REST_FACTOR * (now - began))
