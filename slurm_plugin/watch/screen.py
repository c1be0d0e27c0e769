"""The terminal while the live view is on it: the alternate screen, single keys, and only lines that have changed are sent."""

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


class Screen:
    """keyboard: the descriptor of a terminal, None: there is none. display: likewise, always there; encoding: of its characters."""

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
        """As it was, whatever has happened; a terminal that is gone needs nothing."""
        with contextlib.suppress(OSError):
            self._send(_LEAVE.encode())
        if self.keyboard is not None and self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self.keyboard, termios.TCSADRAIN, self._before)

    def size(self) -> tuple[int, int]:
        """(cells, lines)"""
        width, height = os.get_terminal_size(self._display)
        return (max(width, _SMALLEST[0]), max(height, _SMALLEST[1])) if width and height else (80, 24)

    def forget(self) -> None:
        """What is shown: the next frame is sent whole."""
        self._shown = []

    def draw(self, lines: Sequence[str]) -> int:
        """Returns how many bytes that took."""
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
        """What was typed and not read yet."""
        if self.keyboard is not None:
            termios.tcflush(self.keyboard, termios.TCIFLUSH)

    def _send(self, data: bytes) -> int:
        left = memoryview(data)
        while left:
            left = left[os.write(self._display, left) :]
        return len(data)


@contextlib.contextmanager
def signals(*numbers: signal.Signals) -> Iterator[int]:
    """A descriptor where the numbers of these signals arrive, a byte each, in place of what they would do."""
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
