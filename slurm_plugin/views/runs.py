"""The runs of one job: when, where, what each cost, and for which job it was preempted."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tiresias.protocol.published_job import PublishedRun
from tiresias.slurm_plugin.views.predictions import step_seconds
from tiresias.slurm_plugin.views.table_layout import FAINT, Cell, Column, fitted, heading, row_lines, styled, wrapped
from tiresias.slurm_plugin.views.text import clock, duration, service

_RUNS = (
    Column("run", 4, right=True),
    Column("start", 13),
    Column("end", 13),
    Column("ran", 7, right=True),
    Column("GPUs", 4, right=True),
    Column("servers", 7, right=True, needs=100),  # parameter servers on CPUs alone
    Column("service", 12, right=True),
    Column("step", 7, right=True, needs=126),  # its seconds, timed from progress reports
    Column("expected", 8, right=True, needs=136),  # the same as predicted before the number of GPUs changed
    Column("ready", 7, right=True, needs=100),  # from the start to the first step
    Column("save", 7, right=True, needs=100),
    Column("pause", 7, right=True, needs=100),  # from the signal to free GPUs
    Column("redone", 6, right=True, needs=100),
    Column("lost", 7, right=True, needs=120),  # of a run that was ended without a checkpoint
    Column("for job", 8, needs=110, wraps=True),  # the job for which this run was preempted
    Column("where", 10, share=1, wraps=True),
)
_OPTIONAL = ("servers", "step", "expected")  # shown where a run has a value
_INDENT = 5  # cells before the values below a run whose columns are not shown


def run_table(runs: Sequence[PublishedRun], width: int, now: float) -> list[Text]:
    """Return one row for each run; values of columns that the width does not allow stand below the row."""
    if not runs:
        return []
    rows = [_cells(run, now) for run in runs]
    columns = [one for one in _RUNS if one.title not in _OPTIONAL or any(row[one.title][0] for row in rows)]
    widths = fitted(columns, width, rows)
    return [Text(), heading(columns, widths), *(part for row in rows for part in _row(row, columns, widths, width))]


def _row(row: dict[str, Cell], columns: Sequence[Column], widths: dict[str, int], width: int) -> list[Text]:
    left_out = ", ".join(f"{title} {text}" for title, (text, _) in row.items() if title not in widths and text)
    below = wrapped(left_out, max(width - _INDENT, 20)) if left_out else []
    return [*row_lines(columns, widths, row), *(styled((" " * _INDENT, ""), (one, FAINT)) for one in below)]


def _cells(run: PublishedRun, now: float) -> dict[str, Cell]:
    end = run["end"]
    ran = (end or now) - run["start"]
    cells = {
        "run": str(run["restart"] + 1),
        "start": clock(run["start"], now),
        "end": clock(end, now) if end else "still runs",
        "ran": duration(ran),
        "GPUs": str(run["gpus"]),
        "servers": str(run.get("servers") or ""),
        "service": service(max(ran, 0.0) * run["gpus"]),
        "step": step_seconds(run.get("timed")),
        "expected": step_seconds(run.get("expected")),
        "ready": _seconds(run.get("restore")),
        "save": _seconds(run.get("save")),
        "pause": _seconds(run.get("pause")),
        "redone": "" if (redone := run.get("redone")) is None else str(redone),
        "lost": _seconds(run.get("lost")),
        "for job": run.get("beneficiary", ""),
        "where": " ".join(run["nodes"]),
    }
    return {title: (text, "") for title, text in cells.items()}


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}s"
