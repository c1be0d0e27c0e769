"""Workloads in which placements are learned: jobs of random models and sizes (marl-placement, section VI).

They arrive uniformly, by a Poisson process, or as the jobs of a real trace do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.models import MODELS
from tiresias.simulator.trace import Trace

UNIFORM, POISSON = "uniform", "poisson"
ARRIVALS = (UNIFORM, POISSON)
MOST_JOBS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PlacementWorkload:
    """A kind of workload; each seed gives other jobs of that kind.

    Attributes:
        jobs: Number of jobs.
        arrivals: "uniform": equally many jobs in each interval, at random moments of it; "poisson"; or a trace, of which the gaps
            between successive submissions are taken, from a place that the seed selects.
        load: GPU-seconds of work, without slowdowns, as a multiple of those of the cluster until the last submission.
        most_gpus: Jobs request 1 to so many GPUs, all equally often.
        shortest, longest: Range of the durations, seconds; their logarithms are distributed uniformly.
        interval: Of uniform arrivals, seconds.

    Raises:
        UsageError: A number is not possible, or the trace has too few jobs.
    """

    jobs: int = 200
    arrivals: str | Trace = POISSON
    load: float = 0.7
    most_gpus: int = 8
    shortest: float = 600.0
    longest: float = 7200.0
    interval: float = 1800.0

    def __post_init__(self) -> None:
        possible = 0 < self.jobs <= MOST_JOBS and 0.0 < self.load <= 1000.0 and 1 <= self.most_gpus <= MOST_JOBS
        if not (possible and 0.0 < self.shortest <= self.longest < 1e9 and 0.0 < self.interval < 1e9):
            raise UsageError(
                "a workload needs 1 job or more, a load above 0, 1 GPU or more, and times above 0; give such numbers"
            )
        if isinstance(self.arrivals, str) and self.arrivals not in ARRIVALS:
            raise UsageError(
                f"arrivals {self.arrivals[:40]!r}: not known; there are {', '.join(ARRIVALS)}, or give a trace"
            )
        if isinstance(self.arrivals, Trace) and len(self.arrivals) < 2:
            raise UsageError("arrivals: the trace has one job, hence no gap between two; give a longer trace")

    def trace(self, seed: int, gpus: int) -> Trace:
        """Return the jobs of a seed. O(jobs).

        Args:
            seed: Of all random numbers, 0 or more.
            gpus: GPUs of the cluster, of which no job requests more.
        """
        generator = np.random.default_rng(seed)
        sizes = generator.integers(1, min(self.most_gpus, gpus) + 1, self.jobs)
        durations = np.exp(generator.uniform(np.log(self.shortest), np.log(self.longest), self.jobs))
        names = list(MODELS)
        models = [names[each] for each in generator.integers(0, len(names), self.jobs).tolist()]
        submit = self._submit(generator, float(sizes @ durations) / (gpus * self.load))
        ids = [str(row) for row in range(self.jobs)]
        return Trace.from_columns(TraceColumns(ids, submit, sizes.astype(np.float64), durations, model=models))

    def _submit(self, generator: np.random.Generator, span: float) -> Floats:
        """Return the moments of the submissions, in ascending order, from 0 to about `span`."""
        if isinstance(self.arrivals, Trace):
            return _like(self.arrivals.submit, self.jobs, generator) * span
        if self.arrivals == POISSON:
            moments: Floats = np.cumsum(generator.exponential(span / self.jobs, self.jobs))
            moments -= moments[0]
            return moments
        interval: Ints = np.arange(self.jobs) * max(round(span / self.interval), 1) // self.jobs
        return np.sort(generator.uniform(interval, interval + 1.0)) * (span / (int(interval[-1]) + 1))


def _like(submit: Floats, jobs: int, generator: np.random.Generator) -> Floats:
    """Return moments from 0 to 1 with the gaps of successive submissions; a trace that is too short begins again."""
    gaps = np.diff(submit)
    first = int(generator.integers(0, len(gaps)))
    moments = np.concatenate(([0.0], np.cumsum(gaps[(first + np.arange(jobs - 1)) % len(gaps)])))
    last = float(moments[-1])
    return moments / last if last > 0.0 else moments
