"""A program on a terminal of its own, shown on the user's terminal if there is one, and recorded in asciinema's format
(version 2).

    with TerminalRecording(file, size, "title") as recording:
        play(["tiresias", "status", "--watch"], recording, over=lambda: False)

The recording is a file of lines: a header, then [seconds, "o", output] and [seconds, "r", "120x40"] for a new size. Keys
are forwarded and not recorded. https://docs.asciinema.org/manual/asciicast/v2/
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

POLL_INTERVAL_S = 0.5  # between two checks for the end
INTERRUPT_TIMEOUT_S = 5.0  # for the program to end after ctrl-C
CTRL_C = b"\x03"
TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}  # where the user has none

Size = tuple[int, int]  # columns, lines


class TerminalRecording:
    """A recording. Every event is written at once, so that a killed recording is complete up to its end."""

    def __init__(self, file: Path, size: Size, title: str) -> None:
        self.size = size
        self._began = 0.0  # with the first event
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._file = file.open("w", encoding="utf-8", buffering=1)
        header = {"version": 2, "width": size[0], "height": size[1], "timestamp": int(time.time()), "title": title}
        self._write({**header, "env": {"TERM": environment().get("TERM", "")}})

    def __enter__(self) -> TerminalRecording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def output(self, data: bytes) -> None:
        """Record output of the program."""
        if text := self._text.decode(data):
            self._event("o", text)

    def resized(self, size: Size) -> None:
        """Record a new size of the terminal."""
        self.size = size
        self._event("r", f"{size[0]}x{size[1]}")

    def _event(self, kind: str, content: str) -> None:
        now = time.monotonic()
        self._began = self._began or now
        self._write([round(now - self._began, 3), kind, content])

    def _write(self, line: object) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")


def has_terminal() -> bool:
    """Return whether standard input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def terminal_size() -> Size:
    """Return the size of the user's terminal."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return size.columns, size.lines


def environment() -> dict[str, str]:
    """Return the environment of the program, with the abilities of the user's terminal if there is one."""
    return dict(os.environ) if has_terminal() else os.environ | TERMINAL


def play(command: Sequence[str], recording: TerminalRecording, over: Callable[[], bool]) -> int:
    """Run the program until it ends and return its exit code; end it with ctrl-C when `over` returns True or on an
    interrupt.
    """
    pid, master = _start(command, recording)
    ended = False
    with _raw_terminal(master, recording) if has_terminal() else contextlib.nullcontext():
        try:
            ended = _exchange(master, recording, over)
        finally:
            ended = ended or _interrupt(master, recording)
            os.close(master)
            if not ended:
                os.kill(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code


def _start(command: Sequence[str], recording: TerminalRecording) -> tuple[int, int]:
    """Return the process id and the master side of the terminal, whose size is set before the program starts."""
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
    """Set the size as termios.tcsetwinsize does from Python 3.11 on."""
    columns, lines = size
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextlib.contextmanager
def _raw_terminal(master: int, recording: TerminalRecording) -> Iterator[None]:
    """Forward every key, including ctrl-C, and each new size to the program."""

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


def _exchange(master: int, recording: TerminalRecording, over: Callable[[], bool]) -> bool:
    """Forward input and output until `over` returns True; return whether the program has ended."""
    keyboard = [sys.stdin.fileno()] if has_terminal() else []
    next_poll = time.monotonic() + POLL_INTERVAL_S
    while True:
        ready, _, _ = select.select([master, *keyboard], [], [], max(0.0, next_poll - time.monotonic()))
        if master in ready and not _pass_on(master, recording):
            return True
        if keyboard and keyboard[0] in ready:
            os.write(master, os.read(keyboard[0], 1024))
        if time.monotonic() >= next_poll:
            if over():
                return False
            next_poll = time.monotonic() + POLL_INTERVAL_S


def _pass_on(master: int, recording: TerminalRecording) -> bool:
    """Forward output; return False when no process has the terminal open any more."""
    try:
        data = os.read(master, 65536)
    except OSError as error:
        if error.errno != errno.EIO:  # Linux's error for a terminal without processes
            raise
        return False
    recording.output(data)
    if has_terminal():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return bool(data)


def _interrupt(master: int, recording: TerminalRecording) -> bool:
    """Interrupt the program, which restores the screen, and return whether it has ended."""
    deadline = time.monotonic() + INTERRUPT_TIMEOUT_S
    os.write(master, CTRL_C)
    while select.select([master], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not _pass_on(master, recording):
            return True
    return False
