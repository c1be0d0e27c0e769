"""`tiresias simulate --reproduce-paper`: the paper's results and the simulated ones.

Each workload is simulated twice, as it is and as a variant, where the paper leaves something open: the variant of the testbed has
heavier tails of durations, that of the trace runs on 1,900 GPUs in place of 2,000. The difference between the two shows how
much of a result depends on such choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.scheduler.rank.gittins import Gittins
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import (
    ALL_POLICIES,
    Experiment,
    Run,
    Setup,
    policy_for,
    read,
    run_experiments,
)
from tiresias.simulator.experiments.paper import EXAMPLE, NUMBERS, Number
from tiresias.simulator.generators import SHORT, SMALL, paper_testbed, philly_like
from tiresias.simulator.outcome_metrics import queueing
from tiresias.simulator.simulation_rules import FREE, Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

SEEDS = range(1, 6)
SHAPES = {"base": (1.0, 1.0), "variant": (3.0, 0.75)}  # of the durations of short and long jobs
MEAN_COST = Cost(resume=62.0)  # section 5.2.4: 13,724 s for 221
TESTBED, BIG, TIGHT = ClusterSize(15, 4), ClusterSize(250, 8), ClusterSize(475, 4)
HOUR = 3600.0
TRACE = "philly_full.csv.gz"
TRACE_JOBS = 111_539
OFF, OFF_EXAMPLE = 0.1, 1e-6  # from here on a difference is explained; the example of Figure 7 is exact

Key = tuple[str, str, str, int]  # workload, variant, policy, seed
Measured = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A result of the paper and the simulated ones.

    Attributes:
        number: The result of the paper.
        simulated: The simulated result, the mean over seeds; nan: the policy does not exist.
        variant: The same of the variant.
    """

    number: Number
    simulated: float
    variant: float

    @property
    def ratio(self) -> float:
        """The simulated result over the paper's."""
        return self.simulated / self.number.paper

    @property
    def is_off(self) -> bool:
        """Whether the difference needs an explanation."""
        return not abs(self.ratio - 1.0) <= (OFF_EXAMPLE if self.number.workload == EXAMPLE else OFF)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """All comparisons, and the trace that was used: its name, and whether it was generated."""

    trace: str
    generated: bool
    comparisons: tuple[Comparison, ...]

    def reasons(self, comparison: Comparison) -> tuple[str, ...]:
        """Return the keys of WHY that explain a difference; none where the results agree."""
        if not comparison.is_off:
            return ()
        generated = ("generated",) * (self.generated and comparison.number.workload == "trace")
        return (*comparison.number.why, *generated)


def reproduce(traces: Path | None, in_queue_order: str) -> Reproduction:
    """Simulate everything.

    Args:
        traces: The folder that may hold TRACE; else a load is generated.
        in_queue_order: The order of jobs within a queue.
    """
    config = replace(PolicyConfig.paper(), in_queue_order=in_queue_order)
    file = _trace_file(traces)
    trace = read(file, TIGHT.gpus, "auto") if file else philly_like(TRACE_JOBS)
    experiments = {**_of_trace(trace, config), **_of_testbed(config), **_of_figure_7()}
    measured = run_experiments({_name(key): each for key, each in experiments.items()}, _measure)
    table = {key: measured[_name(key)] for key in experiments}
    comparisons = tuple(
        Comparison(number, _value(table, number, "base"), _value(table, number, "variant")) for number in NUMBERS
    )
    return Reproduction(TRACE if file else f"generated, as there is no {TRACE}", file is None, comparisons)


def _trace_file(traces: Path | None) -> Path | None:
    if traces and not traces.is_dir():
        raise UsageError(f"--traces {traces}: is no folder; name the one that holds {TRACE}")
    file = traces / TRACE if traces else None
    return file if file and file.exists() else None


def _name(key: Key) -> str:
    workload, variant, policy, seed = key
    return f"{workload}: {policy}" + f", {variant}" * (variant != "base") + f", {seed}" * bool(seed)


def _policies(*workloads: str) -> list[str]:
    named = {name: None for each in NUMBERS if each.workload in workloads for name in (each.policy, each.over) if name}
    return [name for name in named if name in ALL_POLICIES]


def _of_trace(trace: Trace, config: PolicyConfig) -> dict[Key, Experiment]:
    one_hour = replace(config, thresholds=(HOUR,))
    clusters = {"base": BIG, "variant": TIGHT}
    slow_first = sorted(_policies("trace"), key=lambda name: not policy_for(name, trace).preempts)
    return {
        ("trace", variant, policy, 0): Setup("", trace, cluster, one_hour).experiment(policy)
        for policy in slow_first
        for variant, cluster in clusters.items()
    }


def _of_testbed(config: PolicyConfig) -> dict[Key, Experiment]:
    workloads = {"testbed": MEAN_COST, "testbed, free": FREE}
    return {
        (workload, variant, policy, seed): Setup("", trace, TESTBED, config, cost).experiment(policy)
        for variant, (short, long) in SHAPES.items()
        for seed in SEEDS
        for trace in [paper_testbed(seed=seed, short_shape=short, long_shape=long)]
        for workload, cost in workloads.items()
        for policy in _policies(workload)
    }


def _of_figure_7() -> dict[Key, Experiment]:
    """A decision each unit of time, and services as the distribution of 2D-Gittins. Continuous 2D-LAS is a queue for each
    unit of service."""
    jobs = Trace.of(
        TraceJob(str(row), 0.0, gpus, time) for row, (gpus, time) in enumerate(((2, 2.0), (1, 8.0), (2, 6.0)))
    )
    config = replace(PolicyConfig.paper(), thresholds=(100.0,), in_queue_order="first_start")
    continuous = replace(config, thresholds=tuple(map(float, range(1, 20))))
    known = Distribution(jobs.gpus * jobs.duration)
    rules = {
        "SRSF": Rules(policy_for("srsf", jobs), config),
        "2D-LAS": Rules(policy_for("las", jobs), continuous, interval=1.0),
        "2D-Gittins, slides' index values": Rules(Gittins(_index_of_the_slides), config, interval=1.0),
        "2D-Gittins, printed formula": Rules(Gittins(lambda attained, _: known.best(attained)), config, interval=1.0),
    }
    return {(EXAMPLE, "base", name, 0): Experiment(jobs, ClusterSize(1, 2), each) for name, each in rules.items()}


def _index_of_the_slides(attained: Values, quantum: Values) -> Values:
    """Appendix C, Figure 20."""
    return np.select([attained < 4, attained < 8], [0.25, 0.2], 0.125)[()]


def _measure(experiment: Experiment, run: Run) -> dict[str, float]:
    trace, outcome = experiment.trace, run.outcome
    delay = queueing(trace, outcome)
    median, p95 = np.percentile(delay, (50, 95)).tolist()
    bin_1 = (trace.gpus <= SMALL) & (trace.duration < SHORT)
    return {
        **run.summary,
        "median_queueing": median,
        "p95_queueing": p95,
        "small_short_jct": float(outcome.jct[bin_1].mean()) if bin_1.any() else 0.0,
        "lost_seconds": run.summary["preemptions"] * sum(experiment.rules.cost),
    }


def _value(table: Mapping[Key, Measured], number: Number, variant: str) -> float:
    """The mean over seeds; nan where nothing was measured."""
    seeds = [key[3] for key in table if key[:3] == (number.workload, variant, number.policy)]
    values = [_of(table, number, variant, number.policy, seed) for seed in seeds]
    if number.over:
        values = [
            value / _of(table, number, variant, number.over, seed) for value, seed in zip(values, seeds, strict=True)
        ]
    return float(np.mean(values)) if values else float("nan")


def _of(table: Mapping[Key, Measured], number: Number, variant: str, policy: str, seed: int) -> float:
    return table[number.workload, variant, policy, seed][number.metric]
