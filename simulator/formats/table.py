"""Tables of text: a header, one line for each job, cells between commas or another delimiter.

A table is read in pieces, each piece column by column; the cell at fault is searched only in a column that cannot be converted.
In this way ten million rows need no more memory than their columns.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.formats.trace_file import TraceFile

PIECE = 1 << 12  # rows that are converted at once
MOST_ROWS = 20_000_000  # which take about 4 GB; a longer file is an error or an attack

Converted = TypeVar("Converted")


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns to read and how to convert them.

    Attributes:
        numbers: Converters of the columns of numbers.
        words: Converters of the columns of words.
        optional: Columns that may be missing.
        closed: Whether other columns are an error.
        header: The names of the columns of a file without a header.
        delimiter: The character between two cells.
        quoted: Whether a cell in quotation marks may contain a delimiter.
    """

    numbers: Mapping[str, Callable[[Sequence[str]], Floats]]
    words: Mapping[str, Callable[[Sequence[str]], Sequence[str]]]
    optional: frozenset[str] = frozenset()
    closed: bool = False
    header: tuple[str, ...] = ()
    delimiter: str = ","
    quoted: bool = True

    @property
    def needed(self) -> list[str]:
        """Names of the columns that must exist."""
        return [name for name in (*self.words, *self.numbers) if name not in self.optional]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name, shape (rows,), without the optional ones that the file lacks; and the line of each row."""

    numbers: dict[str, Floats]
    words: dict[str, tuple[str, ...]]
    lines: Ints


def read_table(source: TraceFile, layout: Layout) -> Table:
    """Read a table. Raises UsageError with file, line, column and reason."""
    rows = csv.reader(
        source.lines(), delimiter=layout.delimiter, quoting=csv.QUOTE_MINIMAL if layout.quoted else csv.QUOTE_NONE
    )
    header = list(layout.header) or [name.strip() for name in next(rows, [])]
    _check_header(source.file, header, layout)
    reading = _Reading(source.file, header, layout)
    first, done = 1 if layout.header else 2, 0
    while piece := list(islice(rows, PIECE)):
        reading.add(piece, first + done)
        done += len(piece)
        source.progress(done)
        if done > MOST_ROWS:
            raise UsageError(f"{source.file}: has more than {MOST_ROWS:,} lines; cut it into several traces")
    return reading.table()


def refuse(file: Path, line: int, column: str, cell: str, why: str) -> NoReturn:
    """Raise UsageError for one cell."""
    raise UsageError(f"{file}: line {line}, column {column}: {cell.strip()[:40]!r} {why}")


def _check_header(file: Path, header: Sequence[str], layout: Layout) -> None:
    known = [*layout.words, *layout.numbers]
    unknown = [name for name in header if name not in known] if layout.closed else []
    if unknown:
        raise UsageError(
            f"{file}: line 1: unknown column {unknown[0][:40]!r}; rename or remove it (known: {', '.join(known)})"
        )
    if missing := [name for name in layout.needed if name not in header]:
        raise UsageError(f"{file}: line 1: no column {missing[0]}; add it (needed: {', '.join(layout.needed)})")
    if any(header.count(name) > 1 for name in known):
        raise UsageError(f"{file}: line 1: a column occurs twice; remove one")


@dataclass(slots=True)
class _Reading:
    file: Path
    header: list[str]
    layout: Layout
    numbers: dict[str, list[Floats]] = field(default_factory=dict)
    words: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    lines: list[Ints] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.numbers = {name: [] for name in self.layout.numbers if name in self.header}
        self.words = {name: [] for name in self.layout.words if name in self.header}

    def add(self, piece: list[list[str]], first: int) -> None:
        """Convert a piece that begins on line `first`. Empty lines count and are skipped."""
        lines = np.flatnonzero(np.fromiter(map(len, piece), np.int64, len(piece))) + first
        rows = list(filter(None, piece))
        self._check_widths(rows, lines)
        cells = dict(zip(self.header, zip(*rows, strict=True), strict=False))
        for name in self.numbers if rows else ():
            self.numbers[name].append(self._converted(name, cells[name], lines, self.layout.numbers[name]))
        for name in self.words if rows else ():
            self.words[name].append(tuple(self._converted(name, cells[name], lines, self.layout.words[name])))
        self.lines.append(lines)

    def _check_widths(self, rows: list[list[str]], lines: Ints) -> None:
        if set(map(len, rows)) - {len(self.header)}:
            row = next(row for row, cells in enumerate(rows) if len(cells) != len(self.header))
            raise UsageError(
                f"{self.file}: line {lines[row]}: {len(rows[row])} cells for {len(self.header)} columns; is the file cut short?"
            )

    def _converted(
        self, name: str, cells: Sequence[str], lines: Ints, convert: Callable[[Sequence[str]], Converted]
    ) -> Converted:
        try:
            return convert(cells)
        except ValueError:
            for cell, line in zip(cells, lines.tolist(), strict=True):
                if why := _refusal(cell, convert):
                    refuse(self.file, line, name, cell, why)
            raise

    def table(self) -> Table:
        """Return the table; the pieces of a column are freed when it is complete. The garbage collector does not search tuples of
        words; lists would double the time of a long table."""
        numbers = {name: np.concatenate(self.numbers.pop(name) or [np.zeros(0)]) for name in list(self.numbers)}
        words = {name: tuple(chain.from_iterable(self.words.pop(name))) for name in list(self.words)}
        return Table(numbers, words, np.concatenate(self.lines or [np.zeros(0, np.int64)]))


def _refusal(cell: str, convert: Callable[[Sequence[str]], object]) -> str:
    try:
        convert([cell])
    except ValueError as error:
        return str(error)
    return ""
