"""The remaining seconds of a job with each number of GPUs: its remaining steps, times the predicted seconds a step.

    speeds = learn(runs, limits, others)       # from the timed runs of the job, and of others of its kind
    estimate = speeds.remaining(steps)         # of the whole job, by size

The speed of a job with parameter servers on CPUs alone is predicted by their number, too (`server_speeds.py`); each size has the
fastest number (`fastest_servers.py`).

An elastic job keeps its global batch, so that with more GPUs each has fewer samples of a step. The model (`ALL_REDUCE`) takes the
samples of a GPU; where a program does not report samples the unit is its global batch. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates import speed_model
from tiresias.scheduler.estimates.fastest_servers import fastest_counts
from tiresias.scheduler.estimates.loss_curve import Remaining
from tiresias.scheduler.estimates.server_speeds import Points, server_model
from tiresias.scheduler.estimates.speed_forms import ALL_REDUCE
from tiresias.scheduler.estimates.speed_model import SpeedModel
from tiresias.scheduler.estimates.step_times import FASTEST_S
from tiresias.scheduler.model import Floats, Ints

SIZES_LEAST = 2  # different ones, of the job or its kind, that a prediction needs: one does not show how a job scales
SIZES_MEASURED = 3  # of the job, from which on the estimates count as certain
WIDEST_SPEEDS = 2.0  # highest through lowest plausible speed of the median size, of estimates that count as certain
WIDEST_STEPS = 2.0  # the same of the remaining steps
_SLOWEST_S = 1e9  # seconds a step
_FEWEST_SAMPLES, _MOST_SAMPLES = 1e-3, 1e15  # of a step


class TimedRun(NamedTuple):
    """A run of which steps were timed.

    Attributes:
        nodes: Its nodes.
        gpus: Its GPUs.
        seconds: A step takes so long.
        samples: Samples of a step on all GPUs; nan: not reported.
        servers: Its parameter servers on CPUs alone; 0: none.
    """

    nodes: int
    gpus: int
    seconds: float
    samples: float
    servers: int = 0


class SizeSpan(NamedTuple):
    """The sizes that a job can have.

    Attributes:
        least, most: GPUs.
        gpus_a_node: GPUs of a node on which it is placed.
        servers: The possible numbers of parameter servers by GPUs, in ascending order; (): the job has none.
        asynchronous: Its owner states that each worker makes steps of its own; False: not stated.
    """

    least: int
    most: int
    gpus_a_node: int
    servers: tuple[tuple[int, ...], ...] = ()
    asynchronous: bool = False


class StepsLeft(NamedTuple):
    """Steps until a job ends: the expected number, the fewest and the most plausible ones; inf: it does not end."""

    steps: float
    low: float
    high: float

    @classmethod
    def by_curve(cls, found: Remaining, passed: float) -> StepsLeft:
        """Return the steps left by a loss curve. passed: steps since the newest one of the curve."""
        return cls(*(max(steps - passed, 0.0) for steps in (found.decaying, found.low, found.high)))


class SizeEstimate(NamedTuple):
    """What a job needs with each number of GPUs.

    Attributes:
        seconds: Remaining seconds, shape (1, most + 1); nan where not known. The job has no servers, the first axis.
        uncertain: Few sizes are measured, or the intervals are wide.
        servers: The servers on CPUs alone of each size, shape (most + 1,); None: the job has none.
    """

    seconds: Floats
    uncertain: bool
    servers: Ints | None = None


class SplitSpeeds(NamedTuple):
    """The predicted seconds a step of a job whose parameter servers take GPUs as its workers do.

    Attributes:
        seconds: By servers and workers, shape (servers + 1, workers + 1); nan: not a size.
        uncertain: As of `SizeEstimate`.
    """

    seconds: Floats
    uncertain: bool

    def remaining(self, left: StepsLeft) -> SizeEstimate:
        """Return the remaining seconds by servers and workers of a job with so many steps left."""
        return SizeEstimate(left.steps * self.seconds, self.uncertain or not _is_certain(left))


@dataclass(frozen=True, slots=True, eq=False)
class SizeSpeeds:
    """The predicted seconds a step by number of GPUs.

    Attributes:
        seconds, low, high: Seconds a step and their interval, shape (most + 1,); nan where the job cannot have that size.
        uncertain: Few sizes are measured, or the intervals are wide.
        servers: As of `SizeEstimate`.
        by_servers: The model of a job with servers; None: it has none.
        batch: Samples of a step in that model.
    """

    seconds: Floats
    low: Floats
    high: Floats
    uncertain: bool
    servers: Ints | None = None
    by_servers: SpeedModel | None = None
    batch: float = 1.0

    def step_seconds(self, gpus: int, servers: int) -> float:
        """Return the predicted seconds a step of a run; nan: not known. servers: 0: the job has none."""
        if self.by_servers is not None and servers:
            return 1.0 / float(self.by_servers.speed(servers, gpus, self.batch))
        return float(self.seconds[gpus]) if gpus < len(self.seconds) else math.nan

    def remaining(self, left: StepsLeft) -> SizeEstimate:
        """Return the remaining seconds of a job with so many steps left."""
        seconds = left.steps * self.seconds[None, :]
        return SizeEstimate(seconds, self.uncertain or not _is_certain(left), self.servers)


def learn(runs: Sequence[TimedRun], limits: SizeSpan, others: Sequence[TimedRun] = ()) -> SizeSpeeds | None:
    """Return the speeds of a job by size; None where its runs and those of its kind do not show how it scales.

    They show it from SIZES_LEAST sizes on, and for a job that can span nodes only if one of them does: how fast the network between
    nodes is, no run on one node shows.

    Args:
        runs: Its timed runs, the newest last.
        limits: Its sizes.
        others: Timed runs of other jobs of its kind.
    """
    own, alike = ([run for run in each if _is_possible(run)] for each in (runs, others))
    if limits.servers:
        return _learn_with_servers([run for run in own if run.servers], limits, [run for run in alike if run.servers])
    sizes_timed = {(run.nodes, run.gpus) for run in (*own, *alike)}
    spans = any(nodes > 1 for nodes, _ in sizes_timed) or limits.most <= limits.gpus_a_node
    if len(sizes_timed) < SIZES_LEAST or not spans:
        return None
    batch = _global_batch([*alike, *own])
    prior = speed_model.fit(_points(alike, batch), ALL_REDUCE) if alike else None
    model = speed_model.fit(_points(own, batch), ALL_REDUCE, prior=prior)
    gpus = np.arange(limits.least, limits.most + 1)
    sizes = np.ceil(gpus / limits.gpus_a_node), gpus, (batch or 1.0) / gpus
    slow, fast = model.interval(*sizes)
    middle, low, high = (_by_size(1.0 / speed, limits) for speed in (model.speed(*sizes), fast, slow))
    return SizeSpeeds(middle, low, high, _is_uncertain(own, fast / slow))


def learn_splits(runs: Sequence[TimedRun], tasks: int, others: Sequence[TimedRun] = ()) -> SplitSpeeds | None:
    """As `learn`, of a job whose parameter servers take GPUs: by servers and workers, together at most `tasks`."""
    own, alike = ([run for run in each if _is_possible(run) and run.servers] for each in (runs, others))
    found = _server_model(own, alike, is_asynchronous=False)
    if found is None:
        return None
    model, batch = found
    servers, workers = np.ogrid[1:tasks, 1:tasks]
    fits = servers + workers <= tasks
    slow, fast = model.interval(servers, workers, batch)
    seconds = np.full((tasks, tasks), np.nan)
    seconds[1:, 1:] = np.where(fits, 1.0 / model.speed(servers, workers, batch), np.nan)
    return SplitSpeeds(seconds, _is_uncertain(own, np.asarray((fast / slow)[fits])))


def _learn_with_servers(own: list[TimedRun], limits: SizeSpan, alike: list[TimedRun]) -> SizeSpeeds | None:
    """As `learn`, of a job with servers. Its workers are its GPUs; transfers cross the network whatever the nodes (section 3.2)."""
    found = _server_model(own, alike, limits.asynchronous or None)
    if found is None:
        return None
    model, batch = found
    most = max(map(max, filter(None, limits.servers)))
    servers, gpus = np.ogrid[1 : most + 1, 1 : limits.most + 1]
    table = np.full((most + 1, limits.most + 1), np.nan)
    table[1:, 1:] = 1.0 / model.speed(servers, gpus, batch)
    sizes = [() if at < limits.least else counts for at, counts in enumerate(limits.servers[: limits.most + 1])]
    counts = fastest_counts(table, sizes)
    chosen = np.flatnonzero(counts)
    slow, fast = model.interval(counts[chosen], chosen, batch)
    seconds, low, high = (np.full(limits.most + 1, np.nan) for _ in range(3))
    seconds[chosen], low[chosen], high[chosen] = table[counts[chosen], chosen], 1.0 / fast, 1.0 / slow
    return SizeSpeeds(seconds, low, high, _is_uncertain(own, fast / slow), counts, model, batch)


def _server_model(
    own: list[TimedRun], alike: list[TimedRun], is_asynchronous: bool | None
) -> tuple[SpeedModel, float] | None:
    """Return the speed model of a job with servers and the samples of a step; None where too few sizes were timed."""
    if len({(run.servers, run.gpus) for run in (*own, *alike)}) < SIZES_LEAST:
        return None
    batch = _global_batch([*alike, *own]) or 1.0
    return server_model(_server_points(own, batch), _server_points(alike, batch), is_asynchronous), batch


def _is_uncertain(own: Sequence[TimedRun], widths: Floats) -> bool:
    """Return whether few sizes were timed, or the interval of the median size is wide.

    Args:
        own: The job's runs.
        widths: The highest through the lowest plausible speed of each size.
    """
    few = len({(run.servers or run.nodes, run.gpus) for run in own}) < SIZES_MEASURED
    return few or bool(np.median(widths) > WIDEST_SPEEDS)


def _is_certain(left: StepsLeft) -> bool:
    return left.high <= WIDEST_STEPS * max(left.low, 1.0)


def _server_points(runs: Sequence[TimedRun], batch: float) -> Points:
    """Return the points of the speed model of a job with servers."""
    return [(run.servers, run.gpus, batch, 1.0 / run.seconds) for run in runs]


def _is_possible(run: TimedRun) -> bool:
    return FASTEST_S <= run.seconds <= _SLOWEST_S and run.nodes > 0 and run.gpus > 0


def _global_batch(runs: Sequence[TimedRun]) -> float:
    """Return the samples of a step, those of the newest run; 0: a run has not reported them."""
    is_known = all(_FEWEST_SAMPLES <= run.samples <= _MOST_SAMPLES for run in runs)  # false of nan
    return runs[-1].samples if is_known else 0.0


def _points(runs: Sequence[TimedRun], batch: float) -> list[tuple[float, ...]]:
    """Return the points of a speed model. batch: 0 where the samples of a step are not known of each run."""
    return [(run.nodes, run.gpus, (run.samples if batch else 1.0) / run.gpus, 1.0 / run.seconds) for run in runs]


def _by_size(seconds: Floats, limits: SizeSpan) -> Floats:
    return np.concatenate((np.full(limits.least, np.nan), seconds))
