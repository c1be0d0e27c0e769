"""Experiments: simulations as values, and many of them in parallel with one display of their progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import NO_JOBS_COMPLETED, Completed
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.scheduler.rank.gittins import Gittins
from tiresias.scheduler.rank.policies import CLAIRVOYANT, POLICIES, with_owners
from tiresias.scheduler.rank.policy import Policy
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.contention.simulated_contention import SimulatedContention
from tiresias.simulator.elastic.run_measurements import RunMeasurements
from tiresias.simulator.experiments.parallel import ReportProgress, run_all
from tiresias.simulator.failures import Exponential
from tiresias.simulator.outcome import Outcome, Timeline
from tiresias.simulator.outcome_metrics import Summary, summary
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.simulated_assist import ASSIST
from tiresias.simulator.simulated_memory import SimulatedMemory
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import FREE, Cost, Rules, mean_seconds
from tiresias.simulator.trace import Trace, read_trace

Result = TypeVar("Result")

# gittins learns from completed jobs; in the paper's simulations it has the distribution of all services from the start.
WITH_FULL_TRACE: Mapping[str, Callable[[Trace], Policy]] = {
    "gittins_known": lambda trace: Gittins(Distribution(trace.gpus * trace.duration).within),
}
MODES: Mapping[str, Policy] = {"assist": ASSIST}  # of the controller, beside mode exact with each of POLICIES
ALL_POLICIES = (*POLICIES, *WITH_FULL_TRACE, *CLAIRVOYANT, *MODES)


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """A trace, a cluster and the rules of its simulation."""

    trace: Trace
    cluster: ClusterSize
    rules: Rules


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """What the simulations of one command have in common: the name of the trace, and the fields of `Rules`.

    Attributes:
        interval: None: that of each configuration.
    """

    name: str
    trace: Trace
    cluster: ClusterSize
    config: PolicyConfig
    cost: Cost = FREE
    costs: Mapping[str, Cost] = field(default_factory=dict)
    by_node: bool = False
    interval: float | None = None
    failures: Exponential | None = None
    checkpoint_interval: float = 0.0
    placement: SimulatedPlacement | None = None
    reporting: Reporting | None = None
    history: Completed = NO_JOBS_COMPLETED
    tenants: SimulatedTenants | None = None
    measurements: RunMeasurements | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    contention: SimulatedContention | None = None
    memory: SimulatedMemory | None = None

    def experiment(self, policy: str, config: PolicyConfig | None = None) -> Experiment:
        """Return the experiment of one policy.

        Args:
            policy: One of ALL_POLICIES.
            config: In place of the setup's. Its `preemption_cost` becomes the simulated mean cost.
        """
        config = replace(config or self.config, preemption_cost=mean_seconds(self.cost, self.costs))
        rules = Rules(
            with_owners(policy_for(policy, self.trace), config), config, self.cost, self.costs, self._interval(config),
            self.by_node, self.failures, self.checkpoint_interval, self.placement, self.reporting, self.history, self.tenants,
            self.measurements, self.shares, self.contention, self.memory,
        )  # fmt: skip
        return Experiment(self.trace, self.cluster, rules)

    def _interval(self, config: PolicyConfig) -> float:
        return config.interval if self.interval is None else self.interval


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The result of one simulation."""

    summary: Summary
    outcome: Outcome


def policy_for(name: str, trace: Trace) -> Policy:
    """Return the policy of this name, one of ALL_POLICIES."""
    if name in WITH_FULL_TRACE:
        return WITH_FULL_TRACE[name](trace)
    return next(names[name] for names in (MODES, CLAIRVOYANT, POLICIES) if name in names)


Digest = Callable[[Experiment, Run], Result]


def run_experiments(experiments: Mapping[str, Experiment], digest: Digest[Result]) -> dict[str, Result]:
    """Simulate in parallel, a process for each experiment. Returns the digest of each run, made in its process."""
    return run_tasks({name: (len(each.trace), _task(each, digest)) for name, each in experiments.items()})


def run_tasks(tasks: Mapping[str, tuple[int, Callable[[ReportProgress], Result]]]) -> dict[str, Result]:
    """Run tasks in parallel with a display of their progress.

    Args:
        tasks: By name: what the task reports when it is done, and the task.

    Returns:
        The result of each task.
    """
    with progress_display() as display:
        shown = _Shown(display, {name: whole for name, (whole, _) in tasks.items()})
        return run_all({name: task for name, (_, task) in tasks.items()}, shown.update)


def _task(experiment: Experiment, digest: Digest[Result]) -> Callable[[ReportProgress], Result]:
    def work(report: ReportProgress) -> Result:
        began = time.perf_counter()
        outcome = simulate(experiment.trace, experiment.cluster, experiment.rules, report)
        seconds = time.perf_counter() - began
        report(len(experiment.trace))
        return digest(experiment, Run(summary(experiment.trace, experiment.cluster, outcome, seconds), outcome))

    return work


def whole(experiment: Experiment, run: Run) -> Run:
    """Return the run itself: a digest for `run_experiments`."""
    return run


def without_timeline(experiment: Experiment, run: Run) -> Run:
    """Return the run without its timeline, which is long: a digest for `run_experiments`."""
    nothing = np.zeros(0, np.int64)
    timeline = Timeline(np.zeros(0), nothing, nothing, nothing)
    return replace(run, outcome=replace(run.outcome, timeline=timeline))


def read(file: Path, gpus: int | None, format: str) -> Trace:
    """Read a trace with a display of the progress; arguments as of `read_trace`."""
    with progress_display() as display:
        task = display.add_task(f"reading {file.name}", total=None)
        return read_trace(file, gpus, format, lambda rows: display.update(task, completed=rows, refresh=True))


def progress_display() -> Progress:
    """Return a progress display. The work refreshes it, no thread: `run_all` forks."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)


class _Shown:
    """Shows a line for each running simulation, and one for all of them where there are several."""

    def __init__(self, display: Progress, totals: Mapping[str, int]) -> None:
        self._display, self._totals = display, totals
        self._lines: dict[str, TaskID] = {}
        self._all = display.add_task("simulations", total=len(totals), visible=len(totals) > 1)

    def update(self, name: str, done: int) -> None:
        if name not in self._lines:
            self._lines[name] = self._display.add_task(name, total=self._totals[name])
        over = done >= self._totals[name]
        self._display.update(self._lines[name], completed=done, visible=not over)
        if over:
            self._display.advance(self._all)
        self._display.refresh()
