"""The terminal during the live view: the alternate screen, single keys, and transfer of changed lines only."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import Any

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"  # alternate screen, no cursor, no wrapping
_LEAVE = "\x1b[?7h\x1b[0m\x1b[?25h\x1b[?1049l"
_SMALLEST = (20, 5)
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNALS = (*_ENDING_SIGNALS, signal.SIGWINCH, signal.SIGTSTP)  # that a view handles


class Screen:
    """The terminal; a context manager that restores its state.

    Args:
        keyboard: descriptor of a terminal; None if there is none
        display: descriptor of the terminal to draw on
        encoding: of the characters
        errors: as in `str.encode`
    """

    def __init__(self, keyboard: int | None, display: int, encoding: str, errors: str) -> None:
        self.keyboard, self._display = keyboard, display
        self._encoding, self._errors = encoding, errors
        self._before: list[Any] | None = None
        self._shown: list[bytes] = []

    def __enter__(self) -> Screen:
        if self.keyboard is not None:
            self._before = termios.tcgetattr(self.keyboard)
            tty.setcbreak(self.keyboard)
        self._shown = []
        self._send(_ENTER.encode())
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal in every case; a closed terminal needs nothing."""
        with contextlib.suppress(OSError):
            self._send(_LEAVE.encode())
        if self.keyboard is not None and self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self.keyboard, termios.TCSADRAIN, self._before)

    def size(self) -> tuple[int, int]:
        """Return (cells, lines)."""
        width, height = os.get_terminal_size(self._display)
        return (max(width, _SMALLEST[0]), max(height, _SMALLEST[1])) if width and height else (80, 24)

    def forget(self) -> None:
        """Forget what is shown: the next frame is sent whole."""
        self._shown = []

    def draw(self, lines: Sequence[str]) -> int:
        """Show the lines and return the number of bytes sent."""
        frame = [line.encode(self._encoding, self._errors) for line in lines]
        changed = [] if self._shown else [b"\x1b[2J"]
        for row, line in enumerate(frame):
            if row >= len(self._shown) or self._shown[row] != line:
                changed.append(b"\x1b[%dH%s\x1b[K" % (row + 1, line))
        if len(frame) < len(self._shown):
            changed.append(b"\x1b[%dH\x1b[J" % (len(frame) + 1))
        self._shown = frame
        return self._send(b"".join(changed))

    def discard_typed(self) -> None:
        """Discard typed bytes that have not been read."""
        if self.keyboard is not None:
            termios.tcflush(self.keyboard, termios.TCIFLUSH)

    def after_signals(self, numbers: bytes) -> int:
        """Handle signals of SIGNALS; return the one that ends the view, 0: none does. Ctrl-Z stops the process here."""
        if signal.SIGTSTP in numbers:
            self.__exit__()
            os.kill(os.getpid(), signal.SIGSTOP)
            self.__enter__()
        self.forget()
        return next((number for number in numbers if number in _ENDING_SIGNALS), 0)

    def _send(self, data: bytes) -> int:
        left = memoryview(data)
        while left:
            left = left[os.write(self._display, left) :]
        return len(data)


@contextlib.contextmanager
def signals(*numbers: signal.Signals) -> Iterator[int]:
    """Yield a descriptor from which the numbers of these signals are read, one byte each, in place of their default action."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
