"""A program on a terminal of its own, shown on ours where there is one, and recorded in asciinema's format (version 2).

    with Recording(file, size, "title") as recording:
        play(["tiresias", "status", "--watch"], recording, over=lambda: False)

The recording is a file of lines: a header, then [seconds, "o", what the program wrote] and [seconds, "r", "120x40"] for a new size.
Keys are handed on and not recorded. https://docs.asciinema.org/manual/asciicast/v2/
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

LOOK = 0.5  # seconds between two questions whether it is over
LAST_WORDS = 5.0  # seconds that the program has after ctrl-C
CTRL_C = b"\x03"
TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}  # where we have none

Size = tuple[int, int]  # columns, lines


class Recording:
    """Every event is in the file at once: what was recorded stays when we are killed."""

    def __init__(self, file: Path, size: Size, title: str) -> None:
        self.size = size
        self._began = 0.0  # with the first event
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._file = file.open("w", encoding="utf-8", buffering=1)
        header = {"version": 2, "width": size[0], "height": size[1], "timestamp": int(time.time()), "title": title}
        self._write({**header, "env": {"TERM": environment().get("TERM", "")}})

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def output(self, data: bytes) -> None:
        if text := self._text.decode(data):
            self._event("o", text)

    def resized(self, size: Size) -> None:
        self.size = size
        self._event("r", f"{size[0]}x{size[1]}")

    def _event(self, kind: str, content: str) -> None:
        now = time.monotonic()
        self._began = self._began or now
        self._write([round(now - self._began, 3), kind, content])

    def _write(self, line: object) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def terminal_size() -> Size:
    size = os.get_terminal_size(sys.stdout.fileno())
    return size.columns, size.lines


def environment() -> dict[str, str]:
    """A program that we play finds in it what its terminal can do: what ours can, where we have one."""
    return dict(os.environ) if has_terminal() else os.environ | TERMINAL


def play(command: Sequence[str], recording: Recording, over: Callable[[], bool]) -> int:
    """The program's exit code, when it has ended; ends it, as ctrl-C would, as soon as `over` says so or when interrupted."""
    pid, master = _start(command, recording)
    ended = False
    with _our_terminal(master, recording) if has_terminal() else contextlib.nullcontext():
        try:
            ended = _exchange(master, recording, over)
        finally:
            ended = ended or _interrupt(master, recording)
            os.close(master)
            if not ended:
                os.kill(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code


def _start(command: Sequence[str], recording: Recording) -> tuple[int, int]:
    """Process id and our end of its terminal. The size is there before the program looks."""
    variables = environment()
    pid, master = pty.fork()
    if pid == 0:
        try:
            _resize(0, recording.size)
            os.execvpe(command[0], list(command), variables)
        finally:
            os._exit(127)
    return pid, master


def _resize(terminal: int, size: Size) -> None:
    """What termios.tcsetwinsize does, from Python 3.11 on."""
    columns, lines = size
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextlib.contextmanager
def _our_terminal(master: int, recording: Recording) -> Iterator[None]:
    """Every key, ctrl-C included, goes to the program; so does a new size."""

    def follow(*_: object) -> None:
        recording.resized(terminal_size())
        _resize(master, recording.size)

    keyboard = sys.stdin.fileno()
    modes, handler = termios.tcgetattr(keyboard), signal.signal(signal.SIGWINCH, follow)
    try:
        tty.setraw(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, modes)
        signal.signal(signal.SIGWINCH, handler)


def _exchange(master: int, recording: Recording, over: Callable[[], bool]) -> bool:
    """Until it is over, or the program has ended: True."""
    keyboard = [sys.stdin.fileno()] if has_terminal() else []
    next_look = time.monotonic() + LOOK
    while True:
        ready, _, _ = select.select([master, *keyboard], [], [], max(0.0, next_look - time.monotonic()))
        if master in ready and not _pass_on(master, recording):
            return True
        if keyboard and keyboard[0] in ready:
            os.write(master, os.read(keyboard[0], 1024))
        if time.monotonic() >= next_look:
            if over():
                return False
            next_look = time.monotonic() + LOOK


def _pass_on(master: int, recording: Recording) -> bool:
    """False when nobody has the terminal any more."""
    try:
        data = os.read(master, 65536)
    except OSError as error:
        if error.errno != errno.EIO:  # which is how Linux says it
            raise
        return False
    recording.output(data)
    if has_terminal():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return bool(data)


def _interrupt(master: int, recording: Recording) -> bool:
    """The program restores the screen on its way out. Whether it has gone."""
    deadline = time.monotonic() + LAST_WORDS
    os.write(master, CTRL_C)
    while select.select([master], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not _pass_on(master, recording):
            return True
    return False
