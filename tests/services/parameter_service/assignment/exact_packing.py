"""The fewest aggregators of any assignment, by integer programming: a reference for the heuristic on small cases."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
    Bounds,
    LinearConstraint,
    milp,
)
from scipy.sparse import lil_matrix  # type: ignore[import-untyped, import-not-found, unused-ignore]

from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.assignment.execution_cycle import loss_in, runs_in
from tiresias.services.parameter_service.assignment.job_work import JobWork


class _Task(NamedTuple):
    work: JobWork
    work_s: float


def fewest_aggregators(jobs: dict[str, JobWork], rules: AssignmentRules, most: int) -> int:
    """Return the fewest aggregators, `most` or fewer, that keep the rules.

    Variables, all binary: aggregator n has cycle c; task t lies on aggregator n of cycle c. A cycle is the iteration of a job with
    a task there. Tasks whose job would lose too much in a cycle have no variable.
    """
    tasks = [_Task(work, work_s) for work in jobs.values() for work_s in work.tensors.values()]
    cycles = sorted({work.iteration_s for work in jobs.values()})
    has_cycle = {(n, c): at for at, (n, c) in enumerate((n, c) for n in range(most) for c in cycles)}
    allowed = [
        (t, c)
        for t, task in enumerate(tasks)
        for c in cycles
        if task.work.iteration_s <= c and loss_in(c, task.work.iteration_s) < rules.loss_limit
    ]
    lies = {
        (t, n, c): len(has_cycle) + at
        for at, (t, c, n) in enumerate((t, c, n) for t, c in allowed for n in range(most))
    }
    rows: list[tuple[dict[int, float], float, float]] = []
    for t in range(len(tasks)):
        rows.append(({at: 1.0 for (task, _, _), at in lies.items() if task == t}, 1, 1))
    for n in range(most):
        rows.append(({has_cycle[n, c]: 1.0 for c in cycles}, 0, 1))
        for c in cycles:
            here = {t: at for (t, aggregator, cycle), at in lies.items() if (aggregator, cycle) == (n, c)}
            used = {at: runs_in(c, tasks[t].work.iteration_s) * tasks[t].work_s / c for t, at in here.items()}
            longest = {at: 1.0 for t, at in here.items() if tasks[t].work.iteration_s == c}
            rows.append((used | {has_cycle[n, c]: -1.0}, -np.inf, 0))
            rows.append((longest | {has_cycle[n, c]: -1.0}, 0, np.inf))
        rows += [
            (_burst(tasks, lies, work, n), -np.inf, rules.burst_s(work))
            for work in jobs.values()
            if math.isfinite(rules.burst_s(work))
        ]
        if n:  # which aggregators are used makes no difference
            rows.append(
                ({has_cycle[n, c]: 1.0 for c in cycles} | {has_cycle[n - 1, c]: -1.0 for c in cycles}, -np.inf, 0)
            )
    return _minimum(rows, len(has_cycle), len(has_cycle) + len(lies))


def _burst(tasks: list[_Task], lies: dict[tuple[int, int, float], int], work: JobWork, n: int) -> dict[int, float]:
    return {at: tasks[t].work_s for (t, aggregator, _), at in lies.items() if aggregator == n and tasks[t].work is work}


def _minimum(rows: list[tuple[dict[int, float], float, float]], counted: int, variables: int) -> int:
    matrix = lil_matrix((len(rows), variables))
    for row, (terms, _, _) in enumerate(rows):
        for at, factor in terms.items():
            matrix[row, at] = factor
    cost = np.concatenate([np.ones(counted), np.zeros(variables - counted)])
    limits = LinearConstraint(matrix.tocsr(), [each[1] for each in rows], [each[2] for each in rows])
    found = milp(cost, constraints=limits, integrality=np.ones(variables), bounds=Bounds(0, 1))
    assert found.status == 0, found.message
    return round(float(found.fun))
