"""How suggested cells do on jobs that were held out: cells from the first half of a history, waits in the second half.

The second half is replayed with the cells twice: each tenant in a private cluster of its cells, and all tenants in virtual clusters
that share the cluster, which is simulated node by node and takes much longer. Both begin with an idle cluster, as the first half
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.simulator.experiments.cell_suggestion import Question, Suggestion, names_of, tenants_of
from tiresias.simulator.experiments.experiment import Setup, run_experiments, without_timeline
from tiresias.simulator.experiments.private_size import WaitFigures
from tiresias.simulator.experiments.tenant_runs import startable
from tiresias.simulator.outcome_metrics import queueing
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """The waits of the jobs that were held out.

    Attributes:
        jobs: Their number, by tenant. Tenants without jobs are left out.
        dropped: Number of jobs that are larger than the cells of their tenant.
        private: Their waits in private clusters, by tenant.
        shared: Their waits in virtual clusters, by tenant; None: not simulated.
    """

    jobs: Mapping[str, int]
    dropped: int
    private: Mapping[str, WaitFigures]
    shared: Mapping[str, WaitFigures] | None


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


def held_out(suggestion: Suggestion, by: str, later: Trace, *, shared: bool) -> HeldOut:
    """Replay later jobs with the suggested cells.

    Args:
        suggestion: The cells.
        by: As of `tenants_of`.
        later: The jobs.
        shared: Replay them in virtual clusters, too.

    Raises:
        UsageError: No tenant has such jobs, or they are all larger than its cells.
    """
    question, declared = suggestion.question, suggestion.declared
    alone = SimulatedTenants("private_clusters", declared)
    trace = startable(_assigned(question, by, later), question.setup.cluster, [alone])
    found = tenants_of(trace, "vc")
    of_tenants = {name: found[name] for name in suggestion.fitting if name in found}
    private = {
        name: question.private(name, jobs=jobs).figures(suggestion.fitting[name].nodes)
        for name, jobs in of_tenants.items()
    }
    jobs = {name: len(jobs) for name, jobs in of_tenants.items()}
    in_shared = _shared(question, replace(question.setup, trace=trace), declared, tuple(jobs)) if shared else None
    return HeldOut(jobs, len(later) - len(trace), private, in_shared)


def _shared(
    question: Question, setup: Setup, declared: tuple[DeclaredTenant, ...], names: tuple[str, ...]
) -> dict[str, WaitFigures]:
    """Return the waits of the tenants in virtual clusters."""
    rule = "virtual_clusters"
    tenants = SimulatedTenants(rule, declared)
    experiment = replace(setup, tenants=tenants, by_node=True).experiment(question.policy)
    waited = queueing(setup.trace, run_experiments({rule: experiment}, without_timeline)[rule].outcome)
    clusters = np.array(setup.trace.vc, dtype=object)
    return {name: question.target.figures(waited[clusters == name]) for name in names}


def _assigned(question: Question, by: str, later: Trace) -> Trace:
    """Return the jobs of the tenants, with their tenant as virtual cluster. Other jobs are left out, as in the suggestion."""
    names = names_of(later, by)
    rows = np.flatnonzero([name in question.tenants for name in names])
    if not len(rows):
        raise UsageError("--hold-out: no tenant has jobs in the second half of the history; give a longer history")
    return later.rows(rows).with_clusters([names[row] for row in rows.tolist()])
