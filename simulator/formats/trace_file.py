"""A trace file while it is read: plain or gzip, a file or a pipe; only a piece of it is in memory.

An unreadable file (missing, a folder, cut short, no text) is a UsageError in one line.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from tiresias.errors import UsageError

HEAD = 1 << 16  # bytes in which a format is recognised
PIECE = 1 << 18  # characters that are read at once
LONGEST_LINE = 1 << 20  # characters; a line without end (or a packed gigabyte of zeros) stops here

Progress = Callable[[int], None]  # called with the number of rows read


class TraceFile:
    """An open trace file. `head` is its beginning, some thousand characters."""

    def __init__(self, file: Path, stream: io.BufferedReader, progress: Progress) -> None:
        self.file, self.progress = file, progress
        self.head = codecs.getincrementaldecoder("utf-8-sig")().decode(stream.peek(HEAD)[:HEAD])
        self._text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")

    def lines(self) -> Iterator[str]:
        """Yield the lines with their ends. The file is read in pieces, which is faster, and bounds the length of a line."""
        rest = ""
        while piece := self.read(PIECE):
            text = rest + piece
            end = text.rfind("\n") + 1 or text.rfind("\r") + 1
            if not end and len(text) > LONGEST_LINE:
                raise UsageError(
                    f"{self.file}: has a line of more than {LONGEST_LINE:,} characters; it is no table of jobs"
                )
            yield from io.StringIO(text[:end], newline="")
            rest = text[end:]
        yield from io.StringIO(rest, newline="")

    def read(self, characters: int) -> str:
        """Return the next characters; fewer only at the end of the file."""
        return self._text.read(characters)


@contextmanager
def opened(file: Path, progress: Progress) -> Iterator[TraceFile]:
    """Open a trace file. Raises UsageError if it cannot be read."""
    try:
        with file.open("rb") as raw:
            yield TraceFile(file, _unpacked(raw), progress)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: is no text; a trace is text, plain or gzip") from error
    except csv.Error as error:
        raise UsageError(f"{file}: is no CSV: {error}") from error


def _unpacked(raw: io.BufferedReader) -> io.BufferedReader:
    if raw.peek(2)[:2] != b"\x1f\x8b":
        return raw
    return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=cast(BinaryIO, raw))), HEAD)
