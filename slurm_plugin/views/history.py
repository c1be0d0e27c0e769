"""`tiresias history`: runs, waits and attained service of users and jobs, and the cost of preemptions.

The controller answers in pages of jobs; the sums are computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from rich.console import Group, RenderableType
from rich.text import Text

from tiresias.protocol.published_job import PublishedRun
from tiresias.slurm_plugin.views.runs import run_table
from tiresias.slurm_plugin.views.table_layout import (
    FAINT,
    HEADING,
    UNLIMITED,
    Cell,
    Column,
    fitted,
    heading,
    row_line,
    styled,
)
from tiresias.slurm_plugin.views.text import clock, duration, gpu_time, printable, service

COUNTS = ("runs", "preemptions")
GPU_SECONDS = ("served", "saving", "restoring", "redone")
SECONDS = ("queued", "parked")
SORTS = ("served", "lost", "preemptions", "waited", "runs", "submit")
SHOWN = 50  # rows of a table on a terminal
NOTE = (
    "lost: GPU time without progress because of preemptions, where measured: saves, restarts and repeated steps, and runs that",
    "were ended without a checkpoint (tsbatch --opportunistic=restart).",
    "The gain is not recorded: `tiresias whatif` replays the same jobs under another policy.",
)

_NUMBERS = (
    Column("runs", 5, right=True),
    Column("preempted", 9, right=True),
    Column("GPU time", 9, right=True),
    Column("1st wait", 8, right=True),
    Column("paused", 7, right=True),
    Column("lost", 8, right=True),
    Column("share", 5, right=True),
    Column("saving", 7, right=True, needs=100),
    Column("starting", 8, right=True, needs=100),
    Column("redone", 7, right=True, needs=100),
)
_USERS = (Column("user", 8, share=1, limit=20), Column("jobs", 6, right=True), *_NUMBERS)
_JOBS = (
    Column("job", 8, right=True),
    Column("user", 6, share=1, limit=16),
    Column("submitted", 12),
    Column("GPUs", 4, right=True),
    *_NUMBERS,
)


class HistoryRow(TypedDict, total=False):
    """A job, or with `jobs` the sums over the jobs of a user.

    slurm_plugin/state/usage.py documents the sums. submit, end: epoch seconds; end: 0 of a job that has not ended.
    """

    id: str
    user: str
    uid: int
    submit: float
    end: float
    gpus: int
    jobs: int
    runs: int
    preemptions: int
    served: float
    queued: float
    parked: float
    saving: float
    restoring: float
    redone: float
    lost: float
    each_run: list[PublishedRun]


def with_names(jobs: Iterable[Mapping[str, Any]], names: Mapping[int, str]) -> list[HistoryRow]:
    """Return the jobs of an answer with user names and lost GPU time; `names`: by uid."""
    return [{**job, "user": names[job["uid"]], "lost": lost(job)} for job in jobs]  # type: ignore[typeddict-item]


def lost(row: Mapping[str, Any]) -> float:
    """Return the GPU-seconds without progress because of preemptions."""
    return round(float(sum(row[name] for name in ("saving", "restoring", "redone"))), 3)


def by_user(jobs: Sequence[HistoryRow]) -> list[HistoryRow]:
    """Return the sums over the jobs of each user."""
    sums: dict[int, dict[str, Any]] = {}
    for job in jobs:
        one = sums.setdefault(job["uid"], {"user": job["user"], "uid": job["uid"], "jobs": 0, **_nothing()})
        one["jobs"] += 1
        for name in _nothing():
            one[name] = round(one[name] + job[name], 3)  # type: ignore[literal-required]
    return list(sums.values())  # type: ignore[arg-type]


def _nothing() -> dict[str, float]:
    return dict.fromkeys((*COUNTS, *GPU_SECONDS, *SECONDS, "lost"), 0)


def ordered(rows: Sequence[HistoryRow], sort: str) -> list[HistoryRow]:
    """Return the rows in descending order; by submit time, newest first."""
    return sorted(rows, key=lambda row: -_value(row, sort))


def _value(row: HistoryRow, sort: str) -> float:
    if sort == "waited":
        return row["queued"] + row["parked"]
    return float(row.get(sort, 0.0))  # type: ignore[arg-type]  # of all that SORTS names the values are numbers


def render_users(users: Sequence[HistoryRow], width: int, now: float) -> RenderableType:
    """Return the table of users."""
    return _table(_USERS, users, width, now, "no jobs of the managed partitions in this period")


def render_jobs(jobs: Sequence[HistoryRow], width: int, now: float) -> RenderableType:
    """Return the table of jobs."""
    return _table(_JOBS, jobs, width, now, "no such jobs in this period")


def render_runs(jobs: Sequence[HistoryRow], width: int, now: float) -> RenderableType:
    """Return each job that had the requested id, with its runs."""
    return Group(*(part for job in jobs for part in _with_runs(job, width, now)))


def _with_runs(job: HistoryRow, width: int, now: float) -> list[RenderableType]:
    end = f"ended {clock(job['end'], now)}" if job["end"] else "not ended"
    opening = styled(
        (f"job {printable(job['id'], 20)} ", HEADING),
        (f"of {printable(job['user'], 20)}, submitted {clock(job['submit'], now)}, {end}", ""),
    )
    waits = f"waited {duration(job['queued'])} for its first run and {duration(job['parked'])} between runs"
    sums = f"attained {service(job['served'])}, of which preemptions cost {service(job['lost'])}; {waits}"
    return [opening, Text(sums), *run_table(job["each_run"], width, now), Text()]


def _table(columns: Sequence[Column], rows: Sequence[HistoryRow], width: int, now: float, none: str) -> RenderableType:
    if not rows:
        return styled((none, FAINT))
    shown = rows if width >= UNLIMITED else rows[:SHOWN]
    cells = [_cells(row, now) for row in shown]
    widths = fitted(columns, width, cells)
    lines = [row_line(columns, widths, row) for row in cells]
    left = len(rows) - len(shown)
    more = [styled((f"… and {left} more; output to a file or a pipe and --json lists all", FAINT))] if left else []
    return Group(heading(columns, widths), *lines, *more, *(Text(one, FAINT) for one in NOTE))


def _cells(row: HistoryRow, now: float) -> dict[str, Cell]:
    jobs, share = row.get("jobs", 1), row["lost"] / row["served"] if row["served"] else 0.0
    return {
        "job": (row.get("id", ""), "bold"),
        "user": (row["user"], "bold" if "jobs" in row else ""),
        "jobs": (str(jobs), ""),
        "submitted": (clock(row.get("submit", 0.0), now), FAINT),
        "GPUs": (str(row.get("gpus") or ""), ""),
        "runs": (str(row["runs"]), ""),
        "preempted": (f"{row['preemptions']}x" if row["preemptions"] else "", "magenta"),
        "GPU time": (gpu_time(row["served"]), ""),
        "1st wait": (duration(row["queued"] / jobs), "yellow"),
        "paused": (duration(row["parked"] / jobs), "yellow"),
        "lost": (gpu_time(row["lost"]), "red" if row["lost"] else FAINT),
        "share": (f"{share:.1%}", FAINT),
        "saving": (gpu_time(row["saving"]), FAINT),
        "starting": (gpu_time(row["restoring"]), FAINT),
        "redone": (gpu_time(row["redone"]), FAINT),
    }
