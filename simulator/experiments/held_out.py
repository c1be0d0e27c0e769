"""How suggested cells do on jobs that were held out: cells from the first half of a history, waits in the second half.

The second half is replayed with the cells twice: each tenant in a private cluster of its cells, and all tenants in virtual clusters
that share the cluster. Both begin with an idle cluster, as the first half does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.simulator.experiments.cell_suggestion import Question, Suggestion, names_of
from tiresias.simulator.experiments.experiment import run_experiments, without_timeline
from tiresias.simulator.experiments.private_size import WaitFigures
from tiresias.simulator.experiments.tenant_runs import startable
from tiresias.simulator.outcome_metrics import queueing
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.trace import Trace

RULES = ("private_clusters", "virtual_clusters")


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """The waits of the jobs that were held out.

    Attributes:
        jobs: Their number, by tenant. Tenants without jobs are left out.
        dropped: Number of jobs that are larger than the cells of their tenant.
        waits: By rule, and then by tenant.
    """

    jobs: Mapping[str, int]
    dropped: int
    waits: Mapping[str, Mapping[str, WaitFigures]]


def halves(trace: Trace) -> tuple[Trace, Trace]:
    """Return the jobs submitted in the first and in the second half of the time. Raises UsageError if there are too few jobs."""
    middle = (trace.submit.min() + trace.submit.max()) / 2
    first, second = (
        trace.rows(np.flatnonzero(trace.submit < middle)),
        trace.rows(np.flatnonzero(trace.submit >= middle)),
    )
    if not len(first) or not len(second):
        raise UsageError("--hold-out: all jobs were submitted at one time; give a longer history")
    return first, second


def held_out(suggestion: Suggestion, by: str, later: Trace) -> HeldOut:
    """Replay later jobs with the suggested cells. `by`: as of `tenants_of`."""
    question, declared = suggestion.question, suggestion.declared
    rules = [SimulatedTenants(rule, declared) for rule in RULES]
    trace = startable(_assigned(question, by, later), question.setup.cluster, rules)
    setup = replace(question.setup, trace=trace, by_node=True)
    runs = run_experiments(
        {tenants.rule: replace(setup, tenants=tenants).experiment(question.policy) for tenants in rules},
        without_timeline,
    )
    clusters = np.array(trace.vc, dtype=object)
    rows = {tenant.name: np.flatnonzero(clusters == tenant.name) for tenant in declared}
    jobs = {name: len(found) for name, found in rows.items() if len(found)}
    waits = {rule: queueing(trace, run.outcome) for rule, run in runs.items()}
    figures = {
        rule: {name: question.target.figures(waited[rows[name]]) for name in jobs} for rule, waited in waits.items()
    }
    return HeldOut(jobs, len(later) - len(trace), figures)


def _assigned(question: Question, by: str, later: Trace) -> Trace:
    """Return the jobs of the tenants, with their tenant as virtual cluster. Other jobs are left out, as in the suggestion."""
    names = names_of(later, by)
    rows = np.flatnonzero([name in question.tenants for name in names])
    if not len(rows):
        raise UsageError("--hold-out: no tenant has jobs in the second half of the history; give a longer history")
    return later.rows(rows).with_clusters([names[row] for row in rows.tolist()])
