"""Slurm's accounting: rows of runs into jobs. The rows come from `sacct -P` (sacct_table.py) or `sacct --json` (sacct_json.py).

A requeued job has a row a run (with `sacct --duplicates`; without it only the newest is shown): their times are summed, the first
submission counts. A heterogeneous job has a row a component: their GPUs are summed, the longest counts. A task of an array is a
job. What still waits or runs is dropped, for its duration is not known; so is what was cancelled before it ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.formats.trace_columns import TraceColumns, grouped

OVER = frozenset(("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL",
                  "PREEMPTED", "REVOKED"))  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Rows in columns, shape (runs,). job: as squeue names it, 12 or 12_3. component: its number in a heterogeneous job, else "".
    submit, end (epoch) and elapsed in seconds, nan where there is none; state, user, partition, job name, account and QOS as Slurm
    gives them."""

    job: Sequence[str]
    component: Sequence[str]
    submit: Floats
    end: Floats
    elapsed: Floats
    gpus: Floats
    state: Sequence[str]
    user: Sequence[str]
    partition: Sequence[str]
    name: Sequence[str]
    account: Sequence[str]
    qos: Sequence[str]


def jobs(runs: Runs) -> TraceColumns:
    """A job's GPUs and words are those of its newest row."""
    by_age = np.argsort(runs.submit, kind="stable")
    components, component = grouped(f"{runs.job[row]}+{runs.component[row]}" for row in by_age)
    newest = _last(by_age, component, len(components))
    ran = np.bincount(component, np.nan_to_num(runs.elapsed[by_age]), len(components))
    unfinished = np.array([runs.state[row] not in OVER for row in newest], bool)
    names, job = grouped(runs.job[row] for row in newest)
    gpus, duration = np.zeros(len(names)), np.zeros(len(names))
    np.add.at(gpus, job, np.nan_to_num(runs.gpus[newest]))
    np.maximum.at(duration, job, ran)
    submit = np.full(len(names), np.nan)
    np.fmin.at(submit, job, runs.submit[_last(by_age[::-1], component[::-1], len(components))])
    finish = np.full(len(names), np.nan)
    np.fmax.at(finish, job, runs.end[newest])
    shown = _last(newest, job, len(names))
    columns = TraceColumns(
        names,
        submit,
        gpus,
        np.where(duration > 0, duration, np.nan),
        user=_words(runs.user, shown),
        vc=_words(runs.partition, shown),
        model=_words(runs.name, shown),
        status=_words(runs.state, shown),
        finish=finish,
        account=_words(runs.account, shown),
        qos=_words(runs.qos, shown),
    )
    return columns.drop(np.bincount(job, unfinished, len(names)) > 0, "still waits or runs")


def _words(column: Sequence[str], rows: Ints) -> list[str]:
    return [column[row] for row in rows]


def _last(rows: Ints, group: Ints, groups: int) -> Ints:
    """Of each group the last of its rows."""
    result = np.zeros(groups, np.int64)
    result[group] = rows
    return result
