"""A command on a pseudo-terminal, and what stands on its screen then."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

from rich.cells import cell_len

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"  # the alternate screen
_TOKEN = re.compile(rb"\x1b\[(\??[0-9;]*)([A-Za-z])|([^\x1b]+)")


class Terminal:
    def __init__(self, words: Sequence[str], env: Mapping[str, str], size: tuple[int, int] = (80, 24)) -> None:
        self.master, self.slave = pty.openpty()
        self._size(size)
        self.process = subprocess.Popen(words, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=dict(env))
        self.screen = Screen()

    def resize(self, size: tuple[int, int]) -> None:
        """As a terminal's window does; the kernel sends SIGWINCH to the programs in it, here the test has to."""
        self._size(size)

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def read_until(self, *marks: bytes, seconds: float = 20.0) -> bytes:
        """What was printed since the last call, up to all `marks`."""
        deadline, new = time.monotonic() + seconds, b""
        while not all(mark in new for mark in marks):
            assert time.monotonic() < deadline, f"no {marks!r} in {new[-2000:]!r}"
            new += self._more(0.1)
        return new

    def shows(self, *texts: str, seconds: float = 20.0) -> list[str]:
        """The lines of the screen, once all `texts` are on it."""
        deadline = time.monotonic() + seconds
        while not all(text in "\n".join(self.screen.lines()) for text in texts):
            assert time.monotonic() < deadline, f"no {texts!r} in\n" + "\n".join(self.screen.lines())
            self._more(0.1)
        return self.screen.lines()

    def sent_in(self, seconds: float) -> bytes:
        deadline, new = time.monotonic() + seconds, b""
        while (left := deadline - time.monotonic()) > 0:
            new += self._more(left)
        return new

    def hang_up(self) -> None:
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for each in (self.master, self.slave):
            if each >= 0:
                os.close(each)

    def _more(self, seconds: float) -> bytes:
        if not select.select([self.master], [], [], seconds)[0]:
            return b""
        data = os.read(self.master, 65536)
        self.screen.feed(data)
        return data

    def _size(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))


class Screen:
    """The part of a terminal that the views use: going to a line, erasing to its end, downwards or all. Wide characters
    take two cells, the second of which is empty."""

    def __init__(self) -> None:
        self._cells: dict[int, list[str]] = {}
        self._row = self._column = 0
        self._rest = b""

    def lines(self) -> list[str]:
        return ["".join(self._cells.get(row, [])).rstrip() for row in range(max(self._cells, default=-1) + 1)]

    def feed(self, data: bytes) -> None:
        data, position = self._rest + data, 0
        while token := _TOKEN.match(data, position):
            if token[3] is not None:
                if token.end() == len(data) and not _is_whole(token[3]):
                    break
                self._write(token[3].decode())
            else:
                self._control(token[1].decode(), token[2].decode())
            position = token.end()
        self._rest = data[position:]

    def _write(self, text: str) -> None:
        for character in text:
            if character == "\n":
                self._row, self._column = self._row + 1, 0
            elif character == "\r":
                self._column = 0
            else:
                self._put(character)

    def _put(self, character: str) -> None:
        line, cells = self._cells.setdefault(self._row, []), [character, ""][: cell_len(character)]
        line += [" "] * (self._column - len(line))
        line[self._column : self._column + len(cells)] = cells
        self._column += len(cells)

    def _control(self, parameters: str, what: str) -> None:
        if what == "H":
            row, _, column = parameters.partition(";")
            self._row, self._column = int(row or 1) - 1, int(column or 1) - 1
        elif what == "K":
            del self._cells.setdefault(self._row, [])[self._column :]
        elif what == "J":
            below = 0 if parameters == "2" else self._row
            self._cells = {row: line for row, line in self._cells.items() if row < below}


def _is_whole(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
