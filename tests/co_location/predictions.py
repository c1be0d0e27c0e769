"""What a table of interference expects of runs, compared with what was measured. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from tiresias.protocol.job_kind import digest
from tiresias.scheduler.estimates.co_located_runs import ALONE, NodeRun, loads_beside
from tiresias.scheduler.interference_table import InterferenceTable
from tiresias.scheduler.model import Floats


class TrainedRun(NamedTuple):
    """One run of a job, as its program recorded it.

    Attributes:
        job: The job.
        kind: Its kind.
        node: Where it ran.
        devices: The indexes of its GPUs there.
        start, end: Epoch seconds of its first and last step.
        seconds: Seconds a step.
        jct: Seconds from the submission of the job to its end.
    """

    job: str
    kind: str
    node: str
    devices: tuple[int, ...]
    start: float
    end: float
    seconds: float
    jct: float


class JudgedRun(NamedTuple):
    """A run, the jobs beside it over its time, and its expected and measured slowdown."""

    run: TrainedRun
    beside: float
    expected: float
    measured: float


def by_job_names(table: InterferenceTable, names: Sequence[str]) -> InterferenceTable:
    """Return the part of a table of a controller that is about jobs with these names, of one user, by their names."""
    rows = [
        next((row for row, kind in enumerate(table.kinds) if digest(name.encode()) in kind), None) for name in names
    ]
    known = [row for row in rows if row is not None]
    found = [name for name, row in zip(names, rows, strict=True) if row is not None]
    return InterferenceTable.of(found, table.slowdown[np.ix_(known, known)])


def alone_seconds(runs: Sequence[TrainedRun]) -> dict[str, float]:
    """Return the seconds a step of each kind without others, the median of its runs that had no other job beside them."""
    loads, found = _loads(runs), dict[str, list[float]]()
    for at, run in enumerate(runs):
        if sum(loads[at].values()) <= ALONE:
            found.setdefault(run.kind, []).append(run.seconds)
    return {kind: median(times) for kind, times in sorted(found.items())}


def judged(runs: Sequence[TrainedRun], alone: Mapping[str, float], table: InterferenceTable | None) -> list[JudgedRun]:
    """Return what the table expects of each run beside the jobs that it had beside it, and its slowdown.

    Args:
        runs: All runs of the cluster in that time.
        alone: Seconds a step of each kind alone.
        table: By names of kinds; None: no slowdown is expected.
    """
    loads = _loads(runs)
    return [
        JudgedRun(run, sum(loads[at].values()), _expected(run.kind, loads[at], table), run.seconds / alone[run.kind])
        for at, run in enumerate(runs)
    ]


def _loads(runs: Sequence[TrainedRun]) -> dict[int, dict[str, float]]:
    placed = [NodeRun(run.kind, 1, (run.node,), run.start, run.end, run.seconds, run.job) for run in runs]
    return loads_beside(placed, set(range(len(runs))))


def _expected(kind: str, beside: Mapping[str, float], table: InterferenceTable | None) -> float:
    if table is None or kind not in table.kinds:
        return 1.0
    row = table.excess[table.kinds.index(kind)]
    known = [(table.kinds.index(other), load) for other, load in beside.items() if other in table.kinds]
    return 1.0 + sum(load * float(row[other]) for other, load in known)


def kendall_tau(one: Sequence[float], two: Sequence[float]) -> float | None:
    """Return Kendall's rank correlation with ties (tau-b); None: one of both has no two different values."""
    signs = [_signs(values) for values in (one, two)]
    pairs = [float(np.abs(sign).sum()) for sign in signs]
    if not all(pairs):
        return None
    return float((signs[0] * signs[1]).sum() / np.sqrt(pairs[0] * pairs[1]))


def _signs(values: Sequence[float]) -> Floats:
    column = np.array(values, np.float64)
    return np.asarray(np.sign(column[:, None] - column[None, :]))


def double_booked(runs: Sequence[TrainedRun]) -> list[str]:
    """Return a line for each two runs that had a GPU at the same time."""
    return [
        f"{one.job} and {two.job}: GPUs {sorted(set(one.devices) & set(two.devices))} of {one.node}"
        for one, two in combinations(runs, 2)
        if one.node == two.node and {*one.devices} & {*two.devices} and one.start < two.end and two.start < one.end
    ]


def of_style(found: Sequence[JudgedRun]) -> dict[str, Any]:
    """Return the results of one style.

    The errors are mean relative errors of the measured slowdowns: `error` of the table, `error_without` of expecting no slowdown.
    """
    expected, measured = [one.expected for one in found], [one.measured for one in found]
    kinds = sorted({one.run.kind for one in found})
    tau = kendall_tau(expected, measured)
    return {
        "mean_jct": round(fmean(one.run.jct for one in found), 2),
        "jobs_beside": round(fmean(one.beside for one in found), 2),
        "mean_slowdown": {"expected": round(fmean(expected), 4), "measured": round(fmean(measured), 4)},
        "kendall_tau": None if tau is None else round(tau, 3),
        "error": _error(expected, measured),
        "error_without": _error([1.0] * len(measured), measured),
        "runs_of_nodes": dict(sorted(Counter(one.run.node for one in found).items())),
        "kinds": {kind: _of_kind([one for one in found if one.run.kind == kind]) for kind in kinds},
    }


def _of_kind(found: Sequence[JudgedRun]) -> dict[str, Any]:
    """Return the mean seconds a step of the runs of one kind alone and beside others, None for no run, and the mean slowdowns."""
    parts = {
        "alone": [one.run.seconds for one in found if one.beside <= ALONE],
        "beside": [one.run.seconds for one in found if one.beside > ALONE],
    }
    return {
        **{f"runs_{name}": len(times) for name, times in parts.items()},
        **{f"step_{name}": round(fmean(times), 4) if times else None for name, times in parts.items()},
        "mean_slowdown": {
            "expected": round(fmean(one.expected for one in found), 4),
            "measured": round(fmean(one.measured for one in found), 4),
        },
    }


def _error(expected: Sequence[float], measured: Sequence[float]) -> float:
    return round(fmean(abs(one / two - 1.0) for one, two in zip(expected, measured, strict=True)), 4)


def timing(runs: Sequence[TrainedRun], timed: Mapping[str, float]) -> dict[str, Any]:
    """Return how many runs the controller timed, and its mean relative difference from the programs.

    Args:
        runs: As the programs recorded them.
        timed: Seconds a step of the controller, by job.
    """
    errors = [abs(timed[run.job] / run.seconds - 1.0) for run in runs if run.job in timed]
    return {"runs": len(errors), "error": round(fmean(errors), 4) if errors else None}


def rankings(styles: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the styles in ascending order of their mean slowdown, expected and measured, and how well the orders agree."""
    orders = {
        way: sorted(styles, key=lambda name: styles[name]["mean_slowdown"][way]) for way in ("expected", "measured")
    }
    by_way = [[styles[name]["mean_slowdown"][way] for name in styles] for way in ("expected", "measured")]
    return {**orders, "agree": orders["expected"] == orders["measured"], "kendall_tau": kendall_tau(*by_way)}
