"""Alibaba PAI 2020: `pai_task_table.csv` of alibaba/clusterdata (cluster-trace-gpu-v2020, NSDI'22), which has no header.

A job is all its tasks, from the first one's start to the last one's end, on the sum of their GPUs (instances x the percentage that
each plans), rounded up. A job is Terminated (done) when all its tasks are. `pai_job_table.csv` has each job's user and
submission: where it lies beside the task table it is read too; without it a job is submitted when it first starts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, Table, read_table
from tiresias.simulator.formats.trace_columns import TraceColumns, grouped
from tiresias.simulator.formats.trace_file import TraceFile, opened
from tiresias.simulator.formats.trace_format import TraceFormat

TASKS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu", "gpu_type",
)  # fmt: skip
JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
JOB_TABLE = "pai_job_table.csv"
STATES = ("Terminated", "Failed", "Running", "Waiting")
DONE = STATES[0]

TASK_LAYOUT = Layout(
    numbers=dict.fromkeys(("inst_num", "start_time", "end_time", "plan_gpu"), cells.numbers_or_nothing),
    words={"job_name": cells.ids, "status": cells.words},
)
JOB_LAYOUT = Layout(
    numbers={"start_time": cells.numbers_or_nothing}, words={"job_name": cells.ids, "user": cells.words}
)


def read(source: TraceFile) -> TraceColumns:
    """Read the jobs of a file of this format."""
    if _is_table(source.head, JOBS):
        raise UsageError(f"{source.file}: contains no GPUs; give pai_task_table.csv, with this file in the same folder")
    jobs = _merged(read_table(source, _layout(TASK_LAYOUT, source.head, TASKS)))
    beside = source.file.with_name(JOB_TABLE)
    beside = beside if beside.exists() else beside.with_name(f"{JOB_TABLE}.gz")
    if not beside.exists():
        return jobs
    with opened(beside, source.progress) as job_source:
        return _submitted(jobs, read_table(job_source, _layout(JOB_LAYOUT, job_source.head, JOBS)))


def _is_table(head: str, columns: tuple[str, ...]) -> bool:
    """Return whether the file has the header, or no header and the width and first state of such a table."""
    first = [cell.strip() for cell in head.partition("\n")[0].split(",")]
    return tuple(first) == columns or (len(first) == len(columns) and first[columns.index("status")] in STATES)


def _layout(layout: Layout, head: str, columns: tuple[str, ...]) -> Layout:
    return layout if head.startswith(columns[0]) else replace(layout, header=columns)


def _merged(tasks: Table) -> TraceColumns:
    """A task that has not ended (nan) makes a job that has not."""
    numbers, words = tasks.numbers, tasks.words
    names, job = grouped(words["job_name"])
    share = np.nan_to_num(numbers["inst_num"] * numbers["plan_gpu"])
    gpus = np.ceil(np.bincount(job, share, len(names)) / 100)
    start, end = _first(numbers["start_time"], job, len(names)), _last(numbers["end_time"], job, len(names))
    status = [DONE] * len(names)
    for place, state in zip(job.tolist(), words["status"], strict=True):
        status[place] = status[place] if state == DONE else state
    return TraceColumns(names, start, gpus, end - start, status=status)


def _first(values: Floats, group: Ints, groups: int) -> Floats:
    result = np.full(groups, np.nan)
    np.fmin.at(result, group, values)
    return result


def _last(values: Floats, group: Ints, groups: int) -> Floats:
    """nan where one is."""
    result = np.full(groups, -np.inf)
    np.maximum.at(result, group, np.nan_to_num(values, nan=np.inf))
    return np.where(np.isinf(result), np.nan, result)


def _submitted(jobs: TraceColumns, table: Table) -> TraceColumns:
    """The users and submissions of the job table; a job that it does not have keeps its first start."""
    row = {name: row for row, name in enumerate(table.words["job_name"])}
    rows = [row.get(name, -1) for name in jobs.job_id]
    submit = np.append(table.numbers["start_time"], np.nan)[rows]
    users = [table.words["user"][row] if row >= 0 else "" for row in rows]
    return replace(jobs, submit=np.where(np.isnan(submit), jobs.submit, submit), user=users)


FORMAT = TraceFormat(
    "Alibaba PAI 2020, pai_task_table.csv", lambda head: _is_table(head, TASKS) or _is_table(head, JOBS), read
)
