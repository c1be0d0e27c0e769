"""Generated workloads: the paper's testbed and a load like Philly's. The same arguments give the same jobs on every machine.

Testbed (section 5.1): 480 jobs, or any number in the same proportions. GPUs: half the jobs take one, then 40, 80, 90, 25 and 5 of
480 take 2, 4, 8, 16 and 32. Models: each of the ten of Table 6 equally often. Arrivals: a Poisson process, 30 s apart in the
mean. Durations: 2 minutes to 2 hours, a bounded Pareto distribution on either side of 800 s, where the paper divides short from
long; how many are short follows Table 3, for the small (4 GPUs at most) and the large apart. The paper gives no more than these
ranges and shares, so the Pareto shapes are free: 1 and 1 by default; 3 (short) and 0.75 (long) bring the simulated gain over FIFO
near the paper's.

Philly-like: what the 111,539 jobs of Microsoft's Philly show (msr-fiddle/philly-traces, ATC'19, a duration being the first start to
the last end). GPUs in their proportions; durations from a mixture of log-normal distributions for each class of sizes, fitted
once by expectation maximization; arrivals a Poisson process whose rate follows Philly's hours of the day and varies from day to
day as Philly's did. Users and models, which that trace hardly contains, are left out.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.trace import Trace, TraceJob

GPUS = {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}
MODELS = (
    "vgg19", "vgg16", "vgg11", "alexnet", "resnet152", "resnet101", "resnet50", "inception4", "inception3", "googlenet",
)  # fmt: skip
SMALL = 4  # GPUs: one node of the testbed
SHORTEST, SHORT, LONGEST = 120, 800, 7200  # seconds
SHORT_SHARE = {True: 63.5 / 76.0, False: 16.5 / 24.0}  # Table 3, of the small and of the large jobs
INTERARRIVAL = 30.0  # seconds
USERS = 8

Item = TypeVar("Item")


def paper_testbed(
    jobs: int = 480,
    seed: int = 1,
    *,
    interarrival: float = INTERARRIVAL,
    short_shape: float = 1.0,
    long_shape: float = 1.0,
) -> Trace:
    """Generate the workload of the paper's testbed.

    Args:
        jobs: Number of jobs.
        seed: Seed of the random numbers.
        interarrival: Mean time between two submissions, seconds.
        short_shape: Pareto shape of the durations below 800 s.
        long_shape: Pareto shape of the durations above.

    Returns:
        The trace; all times are whole seconds.
    """
    generator = random.Random(seed)
    sizes = _shuffled(apportion(jobs, GPUS), generator)
    models = _shuffled(apportion(jobs, dict.fromkeys(MODELS, 1)), generator)
    short = _short_ones(sizes, generator)
    durations = [_duration(generator, is_short, short_shape, long_shape) for is_short in short]
    arrivals = _arrivals(jobs, interarrival, generator)
    return Trace.of(
        TraceJob(str(row), arrivals[row], sizes[row], durations[row], f"user{row % USERS}", "vc0", models[row], "Pass")
        for row in range(jobs)
    )


def apportion(total: int, shares: Mapping[Item, int]) -> list[Item]:
    """Return `total` items in the proportions of `shares`, by largest remainder; ties go to the first."""
    whole = sum(shares.values())
    counts = {item: total * share // whole for item, share in shares.items()}
    by_remainder = sorted(shares, key=lambda item: -(total * shares[item] % whole))
    for item in by_remainder[: total - sum(counts.values())]:
        counts[item] += 1
    return [item for item, count in counts.items() for _ in range(count)]


def bounded_pareto(low: float, high: float, shape: float, u: float) -> float:
    """Return the inverse of the distribution function of a bounded Pareto distribution at `u` in [0, 1)."""
    return float(low / (1.0 - u * (1.0 - (low / high) ** shape)) ** (1.0 / shape))


def _shuffled(items: list[Item], generator: random.Random) -> list[Item]:
    generator.shuffle(items)
    return items


def _short_ones(sizes: Sequence[int], generator: random.Random) -> list[bool]:
    short = [False] * len(sizes)
    for small, share in SHORT_SHARE.items():
        rows = [row for row, gpus in enumerate(sizes) if (gpus <= SMALL) == small]
        for row in generator.sample(rows, int(len(rows) * share + 0.5)):
            short[row] = True
    return short


def _duration(generator: random.Random, short: bool, short_shape: float, long_shape: float) -> float:
    u = generator.random()
    seconds = (
        bounded_pareto(SHORTEST, SHORT, short_shape, u) if short else bounded_pareto(SHORT, LONGEST, long_shape, u)
    )
    return float(int(seconds))


def _arrivals(jobs: int, mean: float, generator: random.Random) -> list[float]:
    moments, now = [], 0.0
    for _ in range(jobs):
        moments.append(float(int(now)))
        now += generator.expovariate(1.0 / mean)
    return moments


# Jobs by their GPUs; seven more took 6, 7, 20, 28 or 48.
PHILLY_GPUS = {1: 96652, 2: 2522, 4: 5487, 8: 5716, 12: 12, 16: 852, 24: 40, 32: 212, 64: 28, 128: 11}

# GPUs at most -> (share, mean and deviation of the duration's logarithm) of each part of the mixture. Against Philly's own
# quantiles from 5 to 95% the fit is within 6% for one GPU and within 26% for more; its means are within 7%.
PHILLY_DURATIONS = {
    1: ((0.1211, 4.176, 0.137), (0.1284, 4.240, 0.891), (0.4272, 7.502, 1.047), (0.3233, 8.189, 2.584)),
    2: ((0.4915, 2.900, 0.363), (0.2701, 5.384, 2.107), (0.2384, 11.747, 1.313)),
    4: ((0.0360, 3.661, 0.320), (0.0786, 6.875, 0.251), (0.3849, 6.358, 1.908), (0.5004, 11.228, 1.424)),
    8: ((0.1365, 4.069, 1.144), (0.3674, 7.457, 1.437), (0.0665, 9.583, 0.294), (0.4296, 11.894, 1.261)),
    128: ((0.0896, 3.815, 0.291), (0.4820, 7.185, 2.314), (0.4283, 11.055, 1.421)),
}
PHILLY_LONGEST = 60 * 86400.0  # seconds

# Arrivals in each hour of the day over the mean, days 40 to 124; where a day begins is not known.
PHILLY_HOURS = (
    1.22, 1.08, 1.06, 1.42, 0.90, 0.92, 1.40, 1.75, 1.42, 1.28, 0.74, 0.77,
    0.83, 0.66, 0.61, 0.58, 0.78, 0.93, 0.76, 0.78, 0.93, 0.87, 1.03, 1.26,
)  # fmt: skip
PHILLY_DAYS = 1.82  # shape of a gamma distribution: a day's arrivals deviate from the mean by 74% of it

LONGEST_SPAN = 1e10  # seconds, about 300 years: more is an error, and hour by hour it would fill the memory


def philly_like(jobs: int, seed: int = 1, *, gpus: int = 2000, load: float = 0.9) -> Trace:
    """Generate a load like Philly's. O(jobs).

    Args:
        jobs: Number of jobs.
        seed: Seed of the random numbers.
        gpus: GPUs of the cluster; larger jobs are left out of the mix.
        load: GPU-seconds requested, as a multiple of those of the cluster between the first and the last submission.

    Returns:
        The trace; all times are whole seconds.

    Raises:
        UsageError: The load would last for centuries.
    """
    generator = np.random.default_rng(seed)
    sizes = _philly_sizes(jobs, gpus, generator)
    durations = _philly_durations(sizes, generator)
    span = float(sizes @ durations) / (gpus * load)
    if not span <= LONGEST_SPAN:
        raise UsageError(
            f"{jobs} jobs on {gpus} GPUs at load {load:g} last {span:.0e} s; give more GPUs, or a higher load"
        )
    submit = _philly_arrivals(jobs, span, generator)
    return Trace.from_columns(
        TraceColumns([str(row) for row in range(jobs)], submit, sizes.astype(np.float64), durations)
    )


def _philly_sizes(jobs: int, most: int, generator: np.random.Generator) -> Ints:
    fitting = {gpus: count for gpus, count in PHILLY_GPUS.items() if gpus <= most}
    shares = np.array([*fitting.values()], np.float64)
    return generator.choice(np.array([*fitting], np.int64), jobs, p=shares / shares.sum())


def _philly_durations(sizes: Ints, generator: np.random.Generator) -> Floats:
    durations = np.zeros(len(sizes))
    below = 0
    for most, mixture in PHILLY_DURATIONS.items():
        rows = np.flatnonzero((sizes > below) & (sizes <= most))
        share, mean, deviation = np.array(mixture).T
        part = generator.choice(len(share), len(rows), p=share / share.sum())
        durations[rows] = np.exp(generator.normal(mean[part], deviation[part]))
        below = most
    return np.ceil(np.minimum(durations, PHILLY_LONGEST))


def _philly_arrivals(jobs: int, span: float, generator: np.random.Generator) -> Floats:
    """Return a Poisson process of varying rate and given size: uniform where each hour is as long as its rate is high."""
    edges = np.append(np.arange(0.0, span, 3600.0), span)
    hours = np.arange(len(edges) - 1)
    days = generator.gamma(PHILLY_DAYS, size=len(hours) // 24 + 1)
    expected = np.diff(edges) * np.array(PHILLY_HOURS)[hours % 24] * days[hours // 24]
    passed = np.concatenate(([0.0], np.cumsum(expected)))
    moments: Floats = np.floor(np.interp(np.sort(generator.uniform(0.0, passed[-1], jobs)), passed, edges))
    moments -= moments.min(initial=np.inf)
    return moments
