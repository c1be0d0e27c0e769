"""The columns that the reader of a format returns, and the rows of them that can be replayed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.simulator.elastic_job import ElasticJob
from tiresias.simulator.formats.cells import MOST_GPUS


@dataclass(frozen=True, slots=True)
class Dropped:
    """Jobs of a file that a trace leaves out: why, how many, and the id of the first."""

    reason: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, eq=False)
class TraceColumns:
    """Jobs in the order of their file, columns of shape (jobs,).

    Attributes:
        job_id: Names of the jobs.
        submit: Submit times, seconds from any origin; nan: missing.
        gpus: Requested GPUs; nan: missing.
        duration: Seconds of work; nan: missing.
        user: Owners; empty where the file has no such column, as the following ones.
        vc: Virtual clusters, or partitions.
        model: Models.
        status: How the jobs ended.
        dropped: Jobs that were left out so far.
        finish: Real ends, seconds from the same origin; empty where the file does not contain them.
        claimed_total: Seconds of work that each job claims to need in all, nan: it does not report; empty: none does.
        account: Slurm's accounts.
        qos: Slurm's QOS.
        elastic: The sizes of elastic jobs, None for others; empty: there are none.
        memory: GB of each job on all its nodes together.
    """

    job_id: Sequence[str]
    submit: Floats
    gpus: Floats
    duration: Floats
    user: Sequence[str] = ()
    vc: Sequence[str] = ()
    model: Sequence[str] = ()
    status: Sequence[str] = ()
    dropped: tuple[Dropped, ...] = ()
    finish: Floats = field(default_factory=lambda: np.zeros(0))
    claimed_total: Floats = field(default_factory=lambda: np.zeros(0))
    account: Sequence[str] = ()
    qos: Sequence[str] = ()
    elastic: Sequence[ElasticJob | None] = ()
    memory: Floats = field(default_factory=lambda: np.zeros(0))

    def take(self, rows: Ints) -> TraceColumns:
        """Return these rows, in this order."""
        if np.array_equal(rows, np.arange(len(self.job_id))):
            return self  # the usual case; words are many and costly to copy
        words = (self.job_id, self.user, self.vc, self.model, self.status, self.account, self.qos)
        job_id, user, vc, model, status, account, qos = (
            [column[row] for row in rows] if column else () for column in words
        )
        numbers = (self.submit[rows], self.gpus[rows], self.duration[rows])
        finish, claimed, memory = (
            column[rows] if len(column) else column for column in (self.finish, self.claimed_total, self.memory)
        )
        elastic = [self.elastic[row] for row in rows] if self.elastic else ()
        return TraceColumns(
            job_id, *numbers, user, vc, model, status, self.dropped, finish, claimed, account, qos, elastic, memory
        )

    def drop(self, rows: Bools, reason: str) -> TraceColumns:
        """Return the columns without these rows, which are counted under `reason`."""
        found = np.flatnonzero(rows)
        if not len(found):
            return self
        dropped = Dropped(reason, len(found), self.job_id[found[0]])
        return replace(self.take(np.flatnonzero(~rows)), dropped=(*self.dropped, dropped))


def replayable(columns: TraceColumns, gpus: int | None) -> TraceColumns:
    """Return the jobs that a cluster of `gpus` GPUs (None: any) can run, the first one submitted at 0 s."""
    columns = columns.drop(~(columns.gpus > 0), "asks for no GPU")
    columns = columns.drop(np.isnan(columns.submit), "has no submit time")
    columns = columns.drop(np.isnan(columns.duration), "has no start or no end")
    columns = columns.drop(columns.duration < 0, "ends before it starts")
    most = MOST_GPUS if gpus is None else gpus
    columns = columns.drop(columns.gpus > most, f"is larger than the cluster of {most} GPUs")
    columns = columns.drop(repeated(columns.job_id), "has the id of another job")
    first = columns.submit.min(initial=np.inf)
    return replace(columns, submit=columns.submit - first, finish=columns.finish - first)


def repeated(ids: Sequence[str]) -> Bools:
    """Return for each id whether it occurred before. Ten million ids in a set would take a gigabyte; their hashes take 80 MB."""
    hashes = np.fromiter(map(hash, ids), np.int64, len(ids))
    order = np.argsort(hashes, kind="stable")
    twins = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    again = np.zeros(len(ids), bool)
    seen: set[str] = set()
    for row in sorted({*order[twins].tolist(), *order[twins + 1].tolist()}):
        again[row] = ids[row] in seen
        seen.add(ids[row])
    return again


def grouped(names: Iterable[str]) -> tuple[list[str], Ints]:
    """Return the different names in the order of their first occurrence, and for each given name its index among them."""
    places: dict[str, int] = {}
    codes = [places.setdefault(name, len(places)) for name in names]
    return list(places), np.array(codes, np.int64)
