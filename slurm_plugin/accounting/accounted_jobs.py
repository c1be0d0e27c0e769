"""Slurm's accounting as the ledger needs it: the runs of each job, out of the rows of `sacct --duplicates`.

A row is a run of a job, or a wait that ended without a run; a requeue begins another row. No field that a user writes is
requested, so that a job's name cannot imitate a row. Where Slurm does not report a row's restart count (before 24.05), rows are
counted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tiresias.errors import UsageError
from tiresias.scheduler.host_lists import hosts
from tiresias.slurm_plugin.backends import parse
from tiresias.slurm_plugin.cluster.scope import Scope

FIELDS = (
    "JobID", "UID", "User", "Account", "Partition", "Reservation", "Submit", "Start", "End", "State", "AllocTRES", "NodeList",
)  # fmt: skip
RESTARTS = "Restarts"  # only where this version of sacct has the column
FINAL = frozenset(("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"))
PREEMPTED = frozenset(("PREEMPTED", "REQUEUED"))

_JOB_ID = re.compile(r"\d{1,20}(_\d{1,20})?", re.ASCII)  # not a step, a component of a het job or a pending array task
_NEVER = frozenset(("", "Unknown", "None"))


@dataclass(frozen=True, slots=True)
class AccountedRow:
    """One row of `sacct --duplicates`. Times are epoch seconds, 0 where there is none.

    Attributes:
        restarts: -1 where sacct does not report it.
    """

    id: str
    uid: int
    user: str
    account: str
    partition: str
    reservation: str
    submit: float
    start: float
    end: float
    state: str
    gpus: int
    nodes: tuple[str, ...]
    restarts: int = -1


@dataclass(frozen=True, slots=True)
class AccountedRun:
    """One run of a job on GPUs.

    Attributes:
        end: 0 while it runs.
    """

    restart: int
    start: float
    end: float
    gpus: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccountedJob:
    """A job with all its accounted runs.

    Attributes:
        submit: The time of the first submission.
        preemptions: The number of requeues of any kind.
        last_preempted: The end of the last run that was requeued.
        whole: Whether no run is missing.
    """

    id: str
    uid: int
    submit: float
    runs: tuple[AccountedRun, ...]
    preemptions: int
    last_preempted: float
    whole: bool


def rows(lines: Iterable[str], where: str) -> Iterator[AccountedRow]:
    """Parse the output of `sacct --parsable2`; yield the rows of jobs.

    Args:
        lines: A header with at least FIELDS, in any order, then the rows.
        where: The source of the lines, for messages.

    Raises:
        UsageError: A column is missing, or a line is not a row of sacct.
    """
    numbered = enumerate(lines, 1)
    header = next(numbered, (1, ""))[1].rstrip("\n").split("|")
    if missing := set(FIELDS) - set(header):
        raise UsageError(
            f"{where}: line 1: no column {min(missing)}; `tiresias ledger rebuild --help` shows the command"
        )
    for number, line in numbered:
        cells = line.rstrip("\n").split("|")
        try:
            row = dict(zip(header, cells, strict=True))
            if _JOB_ID.fullmatch(row["JobID"]):
                yield _row(row)
        except (ValueError, OverflowError):
            raise UsageError(f"{where}: line {number}: invalid sacct row: {line.strip()[:80]!r}") from None


def jobs(rows: Iterable[AccountedRow], scope: Scope) -> list[AccountedJob]:
    """Return the jobs that the ledger manages: those that ran on GPUs."""
    by_id: dict[str, list[AccountedRow]] = defaultdict(list)
    for row in rows:
        by_id[row.id].append(row)
    return [_job(one) for same in by_id.values() for one in _split_by_job(same) if _is_managed(one, scope)]


def _row(row: dict[str, str]) -> AccountedRow:
    submit, start, end = (_moment(row[name]) for name in ("Submit", "Start", "End"))
    return AccountedRow(
        row["JobID"], int(row["UID"]), row["User"], row["Account"], row["Partition"], row["Reservation"], submit, start, end,
        row["State"].partition(" ")[0], parse.gpus(row["AllocTRES"])[0],
        hosts(row["NodeList"]) if start else (), int(row.get(RESTARTS) or -1),
    )  # fmt: skip


def _moment(cell: str) -> float:
    """Parse 1764000000, as SLURM_TIME_FORMAT=%s prints it, or 2026-11-21T17:00:00 in local time."""
    if cell in _NEVER:
        return 0.0
    return float(cell) if cell.isdigit() else datetime.fromisoformat(cell).timestamp()


def _split_by_job(same: Sequence[AccountedRow]) -> Iterator[list[AccountedRow]]:
    """Split the rows of one id by job; Slurm reuses ids."""
    job: list[AccountedRow] = []
    for row in sorted(same, key=lambda one: (one.submit, one.restarts, one.start)):
        if job and not _goes_on(job[-1], row):
            yield job
            job = []
        job.append(row)
    yield job


def _goes_on(earlier: AccountedRow, later: AccountedRow) -> bool:
    if later.restarts >= 0:
        return later.restarts > earlier.restarts
    return earlier.state not in FINAL


def _is_managed(job: Sequence[AccountedRow], scope: Scope) -> bool:
    ran = [row for row in job if row.start and row.gpus]
    exempt = job[-1].user in scope.users or job[-1].account in scope.accounts
    return bool(ran) and not exempt and all(row.partition in scope.partitions and not row.reservation for row in ran)


def _job(job: Sequence[AccountedRow]) -> AccountedJob:
    restarts = [number if row.restarts < 0 else row.restarts for number, row in enumerate(job)]
    runs = tuple(
        AccountedRun(restart, row.start, max(row.start, row.end) if row.end else 0.0, row.gpus, row.nodes)
        for restart, row in zip(restarts, job, strict=True)
        if row.start and row.gpus
    )
    ends = [row.end for row in job if row.state in PREEMPTED and row.start]
    whole = restarts == list(range(len(job)))
    return AccountedJob(job[0].id, job[0].uid, job[0].submit, runs, len(ends), max(ends, default=0.0), whole)
