"""Traces: a CSV with the header `job_id,submit_time,num_gpus,duration[,user,vc,model,status]`, times in seconds, gzip accepted.

A mistake in a file is a UsageError in one line: file, line, column, what is wrong and what to do.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints
from tiresias.scheduler.policy import ordered

REQUIRED = ("job_id", "submit_time", "num_gpus", "duration")
OPTIONAL = ("user", "vc", "model", "status")

_ID = re.compile(r"\w[\w.:+-]{0,127}")  # ids name files and stand in messages


@dataclass(frozen=True, slots=True)
class TraceJob:
    """submit_time and duration in seconds; duration is what the job runs when nothing stands in its way."""

    job_id: str
    submit_time: float
    num_gpus: int
    duration: float
    user: str = ""
    vc: str = ""
    model: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Jobs of a file that a trace leaves out: why, how many, and the id of the first."""

    reason: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Jobs in columns, one row a job, by submit time and then by id in natural order (9 before 10), so that a row's number
    breaks every tie the same way whatever order the file had.

    Arrays of shape (jobs,); submit and duration in seconds, duration is what the job runs when nothing stands in its way.
    """

    job_id: tuple[str, ...]
    submit: Floats
    gpus: Ints
    duration: Floats
    user: tuple[str, ...]
    vc: tuple[str, ...]
    model: tuple[str, ...]
    status: tuple[str, ...]
    dropped: tuple[Dropped, ...] = ()

    def __len__(self) -> int:
        return len(self.job_id)

    def jobs(self) -> list[TraceJob]:
        """The rows as records."""
        numbers = (self.submit.tolist(), self.gpus.tolist(), self.duration.tolist())
        return list(map(TraceJob, self.job_id, *numbers, self.user, self.vc, self.model, self.status))

    @classmethod
    def of(cls, jobs: Iterable[TraceJob]) -> Trace:
        """The jobs in any order; they are sorted here."""
        rows = list(jobs)
        order = ordered([np.array([job.submit_time for job in rows], np.float64)], [job.job_id for job in rows])
        rows = [rows[row] for row in order]
        return cls(
            tuple(job.job_id for job in rows),
            np.array([job.submit_time for job in rows], np.float64),
            np.array([job.num_gpus for job in rows], np.int64),
            np.array([job.duration for job in rows], np.float64),
            tuple(job.user for job in rows),
            tuple(job.vc for job in rows),
            tuple(job.model for job in rows),
            tuple(job.status for job in rows),
        )


def read_trace(file: Path, gpus: int | None = None) -> Trace:
    """`gpus`: what the cluster has; a job that asks for more is an error."""
    try:
        with _open(file) as lines:
            jobs = list(_jobs(file, csv.reader(lines)))
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: is no text; a trace is a CSV file, plain or gzip") from error
    except csv.Error as error:
        raise UsageError(f"{file}: is no CSV: {error}") from error
    if not jobs:
        raise UsageError(f"{file}: has no jobs; a trace has a header and one line a job")
    _check_sizes(file, jobs, gpus)
    return Trace.of(jobs)


def _open(file: Path) -> TextIOWrapper:
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    return gzip.open(file, "rt", newline="") if packed else file.open(newline="", encoding="utf-8-sig")


def _jobs(file: Path, lines: Iterator[list[str]]) -> Iterator[TraceJob]:
    header = next(lines, None)
    if header is None:
        raise UsageError(f"{file}: is empty; a trace begins with the header {','.join(REQUIRED)}")
    columns = _columns(file, header)
    seen: dict[str, int] = {}
    for number, cells in enumerate(lines, start=2):
        if not cells:
            continue
        row = _Row(file, number, columns, cells)
        job = row.job()
        if job.job_id in seen:
            row.refuse("job_id", f"was used on line {seen[job.job_id]} already; give every job an id of its own")
        seen[job.job_id] = number
        yield job


def _columns(file: Path, header: Sequence[str]) -> list[str]:
    columns = [name.strip() for name in header]
    unknown = [name for name in columns if name not in REQUIRED + OPTIONAL]
    if unknown:
        allowed = ", ".join(REQUIRED + OPTIONAL)
        raise UsageError(f"{file}: line 1: unknown column {unknown[0][:40]!r}; rename or remove it (known: {allowed})")
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise UsageError(f"{file}: line 1: no column {missing[0]}; add it (needed: {', '.join(REQUIRED)})")
    if len(set(columns)) < len(columns):
        raise UsageError(f"{file}: line 1: a column stands there twice; remove one")
    return columns


class _Row:
    def __init__(self, file: Path, number: int, columns: Sequence[str], cells: Sequence[str]) -> None:
        self._file, self._number = file, number
        if len(cells) != len(columns):
            raise UsageError(
                f"{file}: line {number}: {len(cells)} cells for {len(columns)} columns; is the file cut short?"
            )
        self._cells = dict(zip(columns, (cell.strip() for cell in cells), strict=True))

    def job(self) -> TraceJob:
        others = {name: self._cells.get(name, "") for name in OPTIONAL}
        if not _ID.fullmatch(self._cells["job_id"]):
            self.refuse("job_id", "is not possible; give every job an id of letters, digits and _ . : + -")
        return TraceJob(
            self._cells["job_id"], self._seconds("submit_time"), self._gpus(), self._seconds("duration"), **others
        )

    def refuse(self, column: str, why: str) -> None:
        raise UsageError(f"{self._file}: line {self._number}, column {column}: {self._cells[column][:40]!r} {why}")

    def _seconds(self, column: str) -> float:
        value = self._number_in(column)
        if not 0 <= value < math.inf:
            self.refuse(column, "is not possible; write seconds, 0 or more, or remove the job")
        return value

    def _gpus(self) -> int:
        value = self._number_in("num_gpus")
        if not (value >= 1 and value == int(value)):
            self.refuse("num_gpus", "is not possible; write a whole number, 1 or more, or remove the job")
        return int(value)

    def _number_in(self, column: str) -> float:
        try:
            value = float(self._cells[column])
        except ValueError:
            value = math.nan
        if math.isnan(value) or math.isinf(value):
            self.refuse(column, "is not a number; write one, or remove the job")
        return value


def _check_sizes(file: Path, jobs: Iterable[TraceJob], gpus: int | None) -> None:
    for job in jobs:
        if gpus is not None and job.num_gpus > gpus:
            raise UsageError(
                f"{file}: job {job.job_id} asks for {job.num_gpus} GPUs and the cluster has {gpus}; "
                "remove the job or give the cluster more nodes"
            )
