"""The live view of `tiresias status --watch`: a few frames a second on the alternate screen, until q or ctrl-C.

When the controller goes away the last frame stays, under a line that says so; it goes on when one answers again.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.commands.status import ask_status
from tiresias.slurm_plugin.views.published import Status
from tiresias.slurm_plugin.views.status import render_status
from tiresias.slurm_plugin.views.text import printable

FRAME_SECONDS = 0.3


def watch(path: Path, screen: Console) -> None:
    """Raises TiresiasError when no controller answers at the start."""
    newest = ask_status(path)
    with contextlib.suppress(KeyboardInterrupt), _keys(), Live(console=screen, screen=True, auto_refresh=False) as live:
        problem = ""
        while True:
            live.update(_frame(newest, problem, screen), refresh=True)
            if _quit_asked(FRAME_SECONDS):
                return
            try:
                newest, problem = ask_status(path), ""
            except TiresiasError as error:
                problem = str(error)


def _frame(status: Status, problem: str, screen: Console) -> RenderableType:
    width, height = screen.size
    if not problem:
        return render_status(status, width, height, time.time())
    line = Text(printable(problem, width), "bold white on red", end="\n")
    return Group(line, render_status(status, width, height - 1, time.time()))


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Single keys without echo while this lasts, where standard input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _quit_asked(seconds: float) -> bool:
    """Wait so long for a q."""
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    if not ready:
        return False
    keys = os.read(sys.stdin.fileno(), 64)
    return not keys or b"q" in keys.lower()
