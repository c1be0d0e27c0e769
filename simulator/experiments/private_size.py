"""How large a private cluster must be, so that the jobs of one tenant meet a target for their waiting time.

The tenant's jobs are simulated alone, on more or fewer cells of one size. A wait is all time of a job without progress: before its
first start, after preemptions, and what a preemption costs. The smallest number of cells is found by bisection, between the cells
that the largest job needs and those with which no job waits: this takes for granted that more cells mean no longer waits. The
number that is found was simulated, and meets the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.outcome_metrics import queueing
from tiresias.simulator.simulation import simulate
from tiresias.simulator.trace import Trace


class WaitFigures(NamedTuple):
    """The waits of a tenant's jobs, seconds.

    Attributes:
        mean: Their mean.
        percentile: Their percentile of the target.
        total: Their sum.
    """

    mean: float
    percentile: float
    total: float


@dataclass(frozen=True, slots=True)
class WaitTarget:
    """A percentile of the waits of a tenant's jobs, and what it may be at most.

    Attributes:
        seconds: The longest wait.
        percentile: The share of jobs that wait no longer, percent.
    """

    seconds: float
    percentile: float

    def figures(self, waits: Floats) -> WaitFigures:
        """Return the figures of some waits, shape (jobs,)."""
        return WaitFigures(float(waits.mean()), float(np.percentile(waits, self.percentile)), float(waits.sum()))


class PrivateCluster:
    """A tenant's jobs alone, on any number of equal cells.

    Args:
        setup: The jobs of the tenant, and the rules of the simulation.
        policy: The name of the policy.
        gpus: GPUs of a cell.
        target: The percentile that counts.

    Attributes:
        simulated: The figures found so far, by number of cells.
    """

    def __init__(self, setup: Setup, policy: str, gpus: int, target: WaitTarget) -> None:
        self._setup, self._policy, self._gpus, self._target = setup, policy, gpus, target
        self.simulated: dict[int, WaitFigures] = {}

    @property
    def least(self) -> int:
        """The cells that the largest job needs."""
        return -(-int(self._setup.trace.gpus.max()) // self._gpus)

    @property
    def most(self) -> int:
        """The cells with which no job waits."""
        return max(self.least, -(-peak_gpus(self._setup.trace) // self._gpus))

    def figures(self, cells: int) -> WaitFigures:
        """Return the waits on so many cells. Simulated once; O(events x log jobs)."""
        if cells not in self.simulated:
            alone = replace(self._setup, cluster=ClusterSize(cells, self._gpus)).experiment(self._policy)
            outcome = simulate(alone.trace, alone.cluster, alone.rules)
            self.simulated[cells] = self._target.figures(queueing(alone.trace, outcome))
        return self.simulated[cells]

    def smallest(self, report: Callable[[int], None] = lambda done: None) -> int:
        """Return the smallest number of cells that meets the target.

        Args:
            report: Called with the number of simulations so far.
        """
        low, high = self.least, self.most
        while low < high:
            middle = (low + high) // 2
            met = self.figures(middle).percentile <= self._target.seconds
            low, high = (low, middle) if met else (middle + 1, high)
            report(len(self.simulated))
        return low


def peak_gpus(trace: Trace) -> int:
    """Return the most GPUs that jobs use at once where each job starts when it is submitted."""
    end = trace.submit + trace.duration
    moments = np.concatenate((trace.submit, end))
    change = np.concatenate((trace.gpus, -trace.gpus))
    order = np.lexsort((-change, moments))  # a job that begins when another ends: both count
    return int(np.cumsum(change[order]).max(initial=0))
