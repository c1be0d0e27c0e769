"""`sacct -P` (or -p) of a real site: a header, cells between bars, a row a run; the rows of steps are passed over.

    sacct -P --allusers --duplicates -s BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RV,S,TO -E now -S 2026-01-01 --format=...

as COMMAND below. Without -s, sacct leaves out runs that began before their job was ever eligible, for it goes by that
moment then (seen with 26.05): the first run of a job that was released and started at once. More columns do no harm. Elapsed
stands in for ElapsedRaw, and Start with End for both; either TRES is enough.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import nan

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.sacct_runs import Runs, jobs
from tiresias.simulator.formats.table import Layout, Table, read_table
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat, has_columns

COMMAND = (
    "sacct -P --allusers --duplicates -s BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RV,S,TO -E now"
    " --format=JobID,User,Account,QOS,Partition,JobName,Submit,Start,End,ElapsedRaw,State,AllocTRES,ReqTRES -S"
)
ADVICE = f"run {COMMAND} now-90days"

# 12, a task 12_3, tasks that wait 12_[4-9], a component 12+1, a step 12.batch or 12_3.0
_JOB_ID = re.compile(r"(\d{1,20}(?:_(?:\d{1,20}|\[[^\]|]*\]))?)(?:\+(\d{1,9}))?(\.[\w+]+)?")
_ELAPSED = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,2}(?:\.\d{1,9})?)")
_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]*)?=(\d{1,12})(?=,|$)")


def elapsed(column: Sequence[str]) -> Floats:
    """Return the seconds of elapsed times."""
    return np.fromiter(map(_elapsed, column), np.float64, len(column))


def tres_gpus(column: Sequence[str]) -> Floats:
    """Return the GPUs of TRES lists."""
    return np.fromiter(map(_tres_gpus, column), np.float64, len(column))


def job_ids(column: Sequence[str]) -> list[str]:
    """Return Slurm's job ids, steps and components included."""
    names = cells.words(column)
    if not all(map(_JOB_ID.fullmatch, names)):
        raise ValueError("is not a job id of Slurm")
    return names


def states(column: Sequence[str]) -> list[str]:
    """Return the states without their additions: CANCELLED by 1000 -> CANCELLED."""
    return cells.words([cell.split(" ")[0] for cell in map(str.strip, column)])


@lru_cache(maxsize=1 << 16)
def _elapsed(cell: str) -> float:
    """Return the seconds of 12-23:59:59, 23:59:59 or 59:59."""
    if not cell.strip():
        return nan
    parts = _ELAPSED.fullmatch(cell.strip())
    if not parts:
        raise ValueError("is no time; sacct writes it as 1-12:30:00")
    days, hours, minutes, seconds = (float(part or 0) for part in parts.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@lru_cache(maxsize=1 << 16)
def _tres_gpus(cell: str) -> float:
    """billing=8,gres/gpu:a100=4,gres/gpu=4: the sum stands beside its kinds; where it does not, they are summed."""
    counts = [(kind, int(count)) for kind, count in _GPUS.findall(cell.strip())]
    total = [count for kind, count in counts if not kind]
    return float(total[0] if total else sum(count for _, count in counts))


NUMBERS = {
    "Submit": cells.moments,
    "Start": cells.moments,
    "End": cells.moments,
    "ElapsedRaw": cells.numbers_or_nothing,
    "Elapsed": elapsed,
    "AllocTRES": tres_gpus,
    "ReqTRES": tres_gpus,
}
WORDS = {
    "JobID": job_ids,
    "State": states,
    "User": cells.words,
    "Partition": cells.words,
    "JobName": cells.words,
    "Account": cells.words,
    "QOS": cells.words,
}
LAYOUT = Layout(
    NUMBERS, WORDS, optional=frozenset((*NUMBERS, *WORDS)) - {"JobID", "Submit", "State"}, delimiter="|", quoted=False
)


def read(source: TraceFile) -> TraceColumns:
    """Read the jobs of a file of this format."""
    table = read_table(source, LAYOUT)
    return jobs(_runs(table, _elapsed_of(source, table), _gpus_of(source, table)))


def _elapsed_of(source: TraceFile, table: Table) -> Floats:
    for name in ("ElapsedRaw", "Elapsed"):
        if name in table.numbers:
            return table.numbers[name]
    if not {"Start", "End"} <= table.numbers.keys():
        raise UsageError(f"{source.file}: line 1: no column ElapsedRaw; {ADVICE}")
    return table.numbers["End"] - table.numbers["Start"]


def _gpus_of(source: TraceFile, table: Table) -> Floats:
    """Return the allocated GPUs, or the requested ones of a job that has not run."""
    found = [table.numbers[name] for name in ("AllocTRES", "ReqTRES") if name in table.numbers]
    if not found:
        raise UsageError(f"{source.file}: line 1: no column AllocTRES; {ADVICE}")
    return np.where(found[0] > 0, found[0], found[-1])


def _runs(table: Table, elapsed: Floats, gpus: Floats) -> Runs:
    rows = np.array([row for row, name in enumerate(table.words["JobID"]) if "." not in name], np.int64)
    parts = [name.partition("+") for name in map(table.words["JobID"].__getitem__, rows)]
    words = (table.words.get(name) for name in ("State", "User", "Partition", "JobName", "Account", "QOS"))
    described = ([column[row] for row in rows] if column else [""] * len(rows) for column in words)
    end = table.numbers.get("End", np.full(len(elapsed), np.nan))
    return Runs(
        [job for job, _, _ in parts], [component for _, _, component in parts],
        table.numbers["Submit"][rows], end[rows], elapsed[rows], gpus[rows], *described,
    )  # fmt: skip


FORMAT = TraceFormat("sacct -P", lambda head: has_columns(head, "JobID", "State", delimiter="|"), read)
