"""Which cells each tenant needs for a target waiting time, from the jobs that the tenants had.

1. For each tenant the smallest number of nodes is found with which its jobs, alone, meet the target (`private_size.py`).
2. Nodes are merged to leaf cells for jobs of several nodes: as many leaves as those jobs alone need to meet the target, but no more
   than the nodes make. So leaves cost no node.
3. The cells of all tenants are checked against the cluster (`CellState`). If they do not fit, nodes are taken away, each time from
   the tenant whose waits grow the least (`Shrinking`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.simulator.experiments.cell_levels import CellLevels
from tiresias.simulator.experiments.experiment import Setup, run_tasks
from tiresias.simulator.experiments.parallel import ReportProgress
from tiresias.simulator.experiments.private_size import PrivateCluster, WaitFigures, WaitTarget
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.trace import Trace

BY = ("account", "qos", "partition", "vc")
_STEPS = 24  # nodes are taken away in about so many steps


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked.

    Attributes:
        setup: The history of all tenants, and the cluster.
        tenants: The jobs of each tenant.
        policy: Name of the policy of each tenant.
        target: The waits that are allowed.
    """

    setup: Setup
    tenants: Mapping[str, Trace]
    policy: str
    target: WaitTarget

    def private(self, tenant: str, nodes: int = 1, jobs: Trace | None = None) -> PrivateCluster:
        """Return the private cluster of a tenant, in cells of so many nodes. `jobs`: in place of all of its jobs."""
        setup = replace(self.setup, trace=self.tenants[tenant] if jobs is None else jobs)
        return PrivateCluster(setup, self.policy, nodes * self.setup.cluster.gpus_per_node, self.target)


@dataclass(frozen=True, slots=True)
class TenantSize:
    """What one tenant needs.

    Attributes:
        least: Nodes of its largest job.
        nodes: Nodes that meet the target.
        leaves: Leaf cells that jobs of several nodes need; 0 where no leaf switches are known.
        waits: The waits by number of nodes, as far as they were simulated.
    """

    least: int
    nodes: int
    leaves: int
    waits: dict[int, WaitFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SuggestedCells:
    """The cells of one tenant, and the waits that they make."""

    cells: tuple[DeclaredCells, ...]
    nodes: int
    waits: WaitFigures


@dataclass(frozen=True, slots=True, eq=False)
class Suggestion:
    """The cells of all tenants.

    Attributes:
        question: What was asked.
        levels: The levels of the cells.
        for_target: The cells with which each tenant meets the target.
        fitting: The cells that fit into the cluster: `for_target`, or fewer.
        obstacle: Why `for_target` does not fit: the level, what is asked, what there is; "": it fits.
    """

    question: Question
    levels: CellLevels
    for_target: Mapping[str, SuggestedCells]
    fitting: Mapping[str, SuggestedCells]
    obstacle: str

    @property
    def declared(self) -> tuple[DeclaredTenant, ...]:
        """The virtual clusters that fit."""
        return declarations(self.fitting)


def tenants_of(trace: Trace, by: str, only: Sequence[str] = ()) -> dict[str, Trace]:
    """Return the jobs of each tenant, the one with the most GPU time first. Jobs without a tenant are left out.

    Args:
        trace: All jobs.
        by: One of BY.
        only: Only these tenants; (): all.

    Raises:
        UsageError: The jobs have no such names, or a tenant of `only` has no job.
    """
    column = np.array(names_of(trace, by), dtype=object)
    names = sorted({name for name in column if name})
    if not names:
        raise UsageError(f"no job has the name of its {by}; choose another --by of {', '.join(BY)}")
    if unknown := [name for name in only if name not in names]:
        raise UsageError(f"no job is of {by} {unknown[0][:40]!r}; there are {', '.join(names)[:200]}")
    found = {name: trace.rows(np.flatnonzero(column == name)) for name in only or names}
    return dict(sorted(found.items(), key=lambda each: -float(each[1].gpus @ each[1].duration)))


def names_of(trace: Trace, by: str) -> tuple[str, ...]:
    """Return the tenant of each job; "": none. `by`: one of BY."""
    return {"account": trace.account, "qos": trace.qos}.get(by, trace.vc)


def declarations(suggested: Mapping[str, SuggestedCells]) -> tuple[DeclaredTenant, ...]:
    """Return the virtual clusters that own the cells."""
    return tuple(DeclaredTenant(name, each.cells) for name, each in suggested.items())


def suggest(question: Question) -> Suggestion:
    """Return the cells of all tenants.

    Raises:
        UsageError: Not even the cells that the largest jobs need fit into the cluster.
    """
    levels = CellLevels.of(question.setup.cluster)
    sizes = run_tasks({name: _search(question, name, levels) for name in question.tenants})
    nodes = {name: size.nodes for name, size in sizes.items()}
    for_target = _suggested(levels, sizes, nodes)
    obstacle = _obstacle(question, for_target)
    if not obstacle:
        return Suggestion(question, levels, for_target, for_target, "")
    fewer = Shrinking(question, sizes).to(levels.nodes)
    return Suggestion(question, levels, for_target, _suggested(levels, sizes, fewer), obstacle)


def _search(question: Question, tenant: str, levels: CellLevels) -> tuple[int, Callable[[ReportProgress], TenantSize]]:
    """Return the search for the size of one tenant, and how many simulations it takes at most."""
    private = question.private(tenant)
    steps = (private.most - private.least).bit_length() + 1

    def work(report: ReportProgress) -> TenantSize:
        nodes = private.smallest(report)
        private.figures(nodes)
        leaves = _leaves(question, tenant, levels.nodes_per_leaf)
        report(steps)
        return TenantSize(private.least, nodes, leaves, private.simulated)

    return steps, work


def _leaves(question: Question, tenant: str, nodes_per_leaf: int) -> int:
    """Return the leaf cells with which the tenant's jobs of several nodes, alone, meet the target."""
    jobs = question.tenants[tenant]
    several = np.flatnonzero(jobs.gpus > question.setup.cluster.gpus_per_node)
    if not nodes_per_leaf or not len(several):
        return 0
    return question.private(tenant, nodes_per_leaf, jobs.rows(several)).smallest()


def _suggested(
    levels: CellLevels, sizes: Mapping[str, TenantSize], nodes: Mapping[str, int]
) -> dict[str, SuggestedCells]:
    found = {}
    for name, size in sizes.items():
        count = nodes[name]
        leaves = min(size.leaves, count // levels.nodes_per_leaf) if levels.nodes_per_leaf else 0
        found[name] = SuggestedCells(levels.cells(count, leaves), count, size.waits[count])
    return found


def _obstacle(question: Question, for_target: Mapping[str, SuggestedCells]) -> str:
    """Return why the cells do not fit into the cluster; "": they do."""
    try:
        SimulatedTenants("virtual_clusters", declarations(for_target)).check(Occupancy(question.setup.cluster).nodes())
    except UsageError as error:
        return str(error)
    return ""


class Shrinking:
    """Takes nodes away from tenants, each time from the one for whose jobs the sum of the waits grows the least per node.

    Args:
        question: What was asked.
        sizes: What each tenant needs. The waits that are simulated here are added.
    """

    def __init__(self, question: Question, sizes: Mapping[str, TenantSize]) -> None:
        self._question, self._sizes = question, sizes

    def to(self, most: int) -> dict[str, int]:
        """Return the nodes of each tenant, `most` together. No tenant has fewer than its largest job needs.

        Raises:
            UsageError: The largest jobs need more.
        """
        least = sum(size.least for size in self._sizes.values())
        if least > most:
            raise UsageError(
                f"the largest job of each of the {len(self._sizes)} tenants needs {least} nodes together, and virtual clusters "
                f"can own {most}; name fewer tenants (--tenant)"
            )
        nodes = {name: size.nodes for name, size in self._sizes.items()}
        step = -(-(sum(nodes.values()) - most) // _STEPS)
        while (excess := sum(nodes.values()) - most) > 0:
            fewer = {
                name: max(self._sizes[name].least, count - min(step, excess))
                for name, count in nodes.items()
                if count > self._sizes[name].least
            }
            self._simulate(fewer)
            chosen = min(fewer, key=lambda name: self._growth(name, nodes[name], fewer[name]))
            nodes[chosen] = fewer[chosen]
        return nodes

    def _growth(self, tenant: str, nodes: int, fewer: int) -> float:
        """Return by how much the sum of the waits grows for each node, seconds."""
        waits = self._sizes[tenant].waits
        return (waits[fewer].total - waits[nodes].total) / (nodes - fewer)

    def _simulate(self, nodes: Mapping[str, int]) -> None:
        missing = {name: count for name, count in nodes.items() if count not in self._sizes[name].waits}
        found = run_tasks({name: self._task(name, count) for name, count in missing.items()})
        for name, figures in found.items():
            self._sizes[name].waits[missing[name]] = figures

    def _task(self, tenant: str, nodes: int) -> tuple[int, Callable[[ReportProgress], WaitFigures]]:
        def work(report: ReportProgress) -> WaitFigures:
            found = self._question.private(tenant).figures(nodes)
            report(1)
            return found

        return 1, work
