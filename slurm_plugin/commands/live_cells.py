"""The live view of `tiresias cells --watch`: all virtual clusters, or one after the other.

When the controller stops answering, the last frame stays below a line that reports it, until one answers again.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path

from rich.console import Console, Group

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.commands.cells_command import ask_cells
from tiresias.slurm_plugin.views.cells_page import chosen, render_cells
from tiresias.slurm_plugin.views.table_layout import FAINT, styled
from tiresias.slurm_plugin.views.text import printable
from tiresias.slurm_plugin.watch.frame import ansi_lines
from tiresias.slurm_plugin.watch.keys import Decoder
from tiresias.slurm_plugin.watch.screen import Screen, signals

POLL_INTERVAL_S = 1.0  # between two polls of the controller, and two drawings
ANSWER_TIMEOUT_S = 5.0  # keys are not read meanwhile
POLL_REST_FACTOR = 20  # the pause after a slow poll is this multiple of its time
HINTS = "j k another virtual cluster  a all  q quit"
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STEPS = {"j": 1, "down": 1, "k": -1, "up": -1}


def watch(path: Path, console: Console, only: str) -> int:
    """Show the live view until it is ended and return the exit code.

    Args:
        path: The control socket.
        console: Standard output.
        only: Name of the virtual cluster that is shown first; "": all.

    Raises:
        TiresiasError: No controller answers at the start, or there is no such virtual cluster.
    """
    live = _LiveCells(path, console, only)
    keyboard = sys.stdin.fileno() if sys.stdin.isatty() else None
    screen = Screen(keyboard, sys.stdout.fileno(), sys.stdout.encoding, sys.stdout.errors or "replace")
    with signals(*_ENDING_SIGNALS, signal.SIGWINCH, signal.SIGTSTP) as signal_pipe, screen:
        return live.run(screen, signal_pipe)


class _LiveCells:
    def __init__(self, path: Path, console: Console, only: str) -> None:
        self._path, self._console, self._only = path, console, only
        self._keys, self._problem, self._ended_by, self._over = Decoder(), "", 0, False
        self._cells = ask_cells(path)
        chosen(self._cells, only)
        self._next_poll = time.monotonic() + POLL_INTERVAL_S

    def run(self, screen: Screen, signal_pipe: int) -> int:
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
        body = render_cells(self._cells, width, height - 1 - len(above), time.time(), self._only)
        lines = ansi_lines(Group(*above, body), width, self._console)
        blank = [""] * (height - 1 - len(lines))
        return [*lines, *blank, *ansi_lines(styled((HINTS, FAINT)), width, self._console)]

    def _wait(self, screen: Screen, signal_pipe: int) -> None:
        """Wait for a key or a signal until the next poll."""
        sources = [signal_pipe] + ([screen.keyboard] if screen.keyboard is not None else [])
        ready, _, _ = select.select(sources, [], [], max(self._next_poll - time.monotonic(), 0.0))
        if signal_pipe in ready:
            self._signalled(screen, os.read(signal_pipe, 64))
        elif ready:
            for key in self._keys.feed(os.read(sources[-1], 1024)):
                self._press(screen, key)

    def _signalled(self, screen: Screen, numbers: bytes) -> None:
        self._ended_by = next((number for number in numbers if number in _ENDING_SIGNALS), 0)
        if signal.SIGTSTP in numbers:
            screen.__exit__()
            os.kill(os.getpid(), signal.SIGSTOP)
            screen.__enter__()
        screen.forget()

    def _press(self, screen: Screen, key: str) -> None:
        names = ["", *(each["name"] for each in self._cells["virtual_clusters"])]
        if key == "q":
            self._over = True
        elif key == "redraw":
            screen.forget()
        elif key == "a":
            self._only = ""
        elif key in _STEPS:
            self._only = names[(names.index(self._only) + _STEPS[key]) % len(names)]

    def _poll(self) -> None:
        began = time.monotonic()
        try:
            self._cells, self._problem = ask_cells(self._path, ANSWER_TIMEOUT_S), ""
            if all(each["name"] != self._only for each in self._cells["virtual_clusters"]):
                self._only = ""  # a reload has removed it
        except TiresiasError as error:
            self._problem = str(error)
        now = time.monotonic()
        self._next_poll = now + max(POLL_INTERVAL_S, POLL_REST_FACTOR * (now - began))
