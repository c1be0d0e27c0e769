"""Traces: the jobs to replay, read from this project's CSV or from another format (formats/), plain or gzip.

An error in a file is a UsageError in one line: file, line, column, what is wrong and what to do. Jobs of another format that
cannot be replayed are dropped; `Trace.dropped` has the reasons and counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.scheduler.rank.policy import ordered
from tiresias.simulator.elastic_job import ElasticJob
from tiresias.simulator.formats import FORMATS
from tiresias.simulator.formats.own import REQUIRED
from tiresias.simulator.formats.trace_columns import Dropped as Dropped
from tiresias.simulator.formats.trace_columns import TraceColumns, replayable
from tiresias.simulator.formats.trace_file import Progress, TraceFile, opened
from tiresias.simulator.formats.trace_format import TraceFormat


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace.

    Attributes:
        job_id: Its name.
        submit_time: Moment of its submission, seconds.
        num_gpus: GPUs that it requests.
        duration: Seconds of work where it runs without interruption on its best placement.
        user: Its owner.
        vc: Its virtual cluster, or partition.
        model: The model that it trains, see models.py.
        status: How it ended, in the words of the trace.
        elastic: Its sizes, if it is elastic.
    """

    job_id: str
    submit_time: float
    num_gpus: int
    duration: float
    user: str = ""
    vc: str = ""
    model: str = ""
    status: str = ""
    elastic: ElasticJob | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Jobs in columns, one row for each job.

    The rows are sorted by submit time and then by id in natural order (9 before 10), so that a row's number breaks every tie in
    the same way whatever the order of the file. The fields are those of `TraceJob`, arrays of shape (jobs,), and:

    Attributes:
        dropped: Jobs of the file that cannot be replayed.
        finish: The real end of each job, seconds; empty where the file does not contain it.
        claimed_total: As of `TraceColumns`.
        account: Slurm's account of each job; "" where the file does not contain it.
        qos: Its QOS, likewise.
        elastic: The sizes of elastic jobs, None for others; empty: there are none.
        memory: GB of each job on all its nodes together; empty where the file does not contain it.
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
    finish: Floats = field(default_factory=lambda: np.zeros(0))
    claimed_total: Floats = field(default_factory=lambda: np.zeros(0))
    account: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    elastic: tuple[ElasticJob | None, ...] = ()
    memory: Floats = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.job_id)

    def jobs(self) -> list[TraceJob]:
        """Return the rows as records."""
        numbers = (self.submit.tolist(), self.gpus.tolist(), self.duration.tolist())
        elastic = self.elastic or (None,) * len(self)
        return list(map(TraceJob, self.job_id, *numbers, self.user, self.vc, self.model, self.status, elastic))

    @classmethod
    def of(cls, jobs: Iterable[TraceJob]) -> Trace:
        """Return a trace of jobs in any order."""
        rows = list(map(_FIELDS, jobs))
        job_id, submit, gpus, duration, user, vc, model, status, elastic = (
            zip(*rows, strict=True) if rows else ((),) * 9
        )
        numbers = (np.array(submit, np.float64), np.array(gpus, np.float64), np.array(duration, np.float64))
        sizes = elastic if any(elastic) else ()
        return cls.from_columns(TraceColumns(job_id, *numbers, user, vc, model, status, elastic=sizes))

    @classmethod
    def from_columns(cls, columns: TraceColumns) -> Trace:
        """Return a trace of columns in any order, all of whose jobs can be replayed."""
        columns = columns.take(_order(columns))
        nothing = ("",) * len(columns.job_id)
        words = (columns.user, columns.vc, columns.model, columns.status, columns.account, columns.qos)
        user, vc, model, status, account, qos = (tuple(column) or nothing for column in words)
        numbers = (columns.submit, columns.gpus.astype(np.int64), columns.duration)
        more = (columns.dropped, columns.finish, columns.claimed_total)
        elastic = tuple(columns.elastic)
        return cls(
            tuple(columns.job_id),
            *numbers,
            user,
            vc,
            model,
            status,
            *more,
            account=account,
            qos=qos,
            elastic=elastic,
            memory=columns.memory,
        )

    def of_partitions(self, names: Sequence[str]) -> Trace:
        """Return the jobs of these partitions; all jobs if no partition is named.

        Raises:
            UsageError: There are none.
        """
        rows = np.flatnonzero([not names or vc in names for vc in self.vc])
        if not len(rows):
            raise UsageError(f"no job is of partition {', '.join(names)}; there are {', '.join(sorted(set(self.vc)))}")
        return self.rows(rows)

    def with_clusters(self, names: Sequence[str]) -> Trace:
        """Return the trace with other virtual clusters, one name for each row."""
        return replace(self, vc=tuple(names))

    def without(self, rows: Bools, reason: str) -> Trace:
        """Return the trace without these rows, shape (jobs,), which are counted as dropped under `reason`."""
        return Trace.from_columns(self._columns().drop(rows, reason))

    def rows(self, rows: Ints) -> Trace:
        """Return these rows."""
        return Trace.from_columns(self._columns().take(rows))

    def first(self, count: int) -> Trace:
        """Return the first `count` submitted jobs."""
        return self.rows(np.arange(count))

    def _columns(self) -> TraceColumns:
        gpus, words = self.gpus.astype(np.float64), (self.user, self.vc, self.model, self.status)
        more = (self.dropped, self.finish, self.claimed_total)
        return TraceColumns(
            self.job_id, self.submit, gpus, self.duration, *words, *more,
            account=self.account, qos=self.qos, elastic=self.elastic, memory=self.memory,
        )  # fmt: skip


_FIELDS = attrgetter(*(field.name for field in fields(TraceJob)))


def _order(columns: TraceColumns) -> Ints:
    """Return the order of the rows. Ids that are numbers, the usual case, are compared as numbers: no tuple for each."""
    ids = columns.job_id
    if all(map(str.isdecimal, ids)) and max(map(len, ids), default=0) < 19:
        numbers = np.fromiter(map(int, ids), np.int64, len(ids))
        if np.diff(np.sort(numbers)).all():  # else 1 and 01 differ
            return np.lexsort((numbers, columns.submit))
    return ordered([columns.submit], ids)


def read_trace(
    file: Path, gpus: int | None = None, format: str = "auto", progress: Progress = lambda rows: None
) -> Trace:
    """Read a trace. It takes about 200 bytes of memory for each job.

    Args:
        file: A file, plain or gzip.
        gpus: GPUs of the cluster; larger jobs are dropped or refused. None: any size.
        format: One of FORMATS, or "auto": recognised by the beginning of the file.
        progress: Called with the number of rows read.

    Returns:
        The trace.

    Raises:
        UsageError: The file cannot be read, or is no trace.
    """
    with opened(file, progress) as source:
        chosen = _recognised(source) if format == "auto" else _named(format)
        columns = chosen.read(source)
    if not chosen.exact:
        return replayed(file, columns, gpus)
    _check_sizes(file, columns, gpus)
    return _filled(file, columns)


def replayed(file: Path, columns: TraceColumns, gpus: int | None) -> Trace:
    """Return the jobs that a cluster of `gpus` GPUs can run; the others are dropped.

    Raises:
        UsageError: There are none.
    """
    return _filled(file, replayable(columns, gpus))


def _filled(file: Path, columns: TraceColumns) -> Trace:
    if not len(columns.job_id):
        raise UsageError(f"{file}: has no jobs{_why(columns)}")
    return Trace.from_columns(columns)


def _named(format: str) -> TraceFormat:
    if format not in FORMATS:
        raise UsageError(f"format {format[:40]!r}: no such format; there are auto, {', '.join(FORMATS)}")
    return FORMATS[format]


def _recognised(source: TraceFile) -> TraceFormat:
    if not source.head.strip():
        raise UsageError(f"{source.file}: is empty; a trace begins with the header {','.join(REQUIRED)}")
    for each in FORMATS.values():
        if each.recognises(source.head):
            return each
    first = source.head.lstrip().partition("\n")[0][:40]
    raise UsageError(
        f"{source.file}: no known format begins with {first!r}; begin with the header {','.join(REQUIRED)}"
        f" or name the format ({', '.join(FORMATS)})"
    )


def _check_sizes(file: Path, columns: TraceColumns, gpus: int | None) -> None:
    too_large = np.flatnonzero(columns.gpus > (np.inf if gpus is None else gpus))
    if len(too_large):
        row = too_large[0]
        raise UsageError(
            f"{file}: job {columns.job_id[row]} asks for {columns.gpus[row]:.0f} GPUs and the cluster has {gpus}; "
            "remove the job or give the cluster more nodes"
        )


def _why(columns: TraceColumns) -> str:
    if not columns.dropped:
        return "; a trace has a header and one line a job"
    reasons = (f"{each.count:,} like {each.example}, which {each.reason}" for each in columns.dropped)
    return f" that can be replayed; dropped are {'; '.join(reasons)}"
