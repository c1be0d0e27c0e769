"""Generates the workload of the paper's testbed (section 5.1): 480 jobs, or any number in the same proportions.

GPUs: half the jobs take one, then 40, 80, 90, 25 and 5 of 480 take 2, 4, 8, 16 and 32. Models: each of the ten of Table
6 equally often. Arrivals: a Poisson process, 30 s apart in the mean. Durations: 2 minutes to 2 hours, a bounded Pareto
distribution on either side of 800 s, where the paper divides short from long; how many are short follows Table 3, for
the small (4 GPUs at most) and the large apart.

The paper gives no more than these ranges and shares, so the Pareto shapes are ours: 1 and 1 by default; 3 (short) and
0.75 (long) bring the simulated gain over FIFO near the paper's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tiresias.sandbox.models import MODELS
from tiresias.simulator.trace import TraceJob

GPUS = {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}
SMALL = 4  # GPUs: one node of the testbed
SHORTEST, SHORT, LONGEST = 120, 800, 7200  # seconds
SHORT_SHARE = {True: 63.5 / 76.0, False: 16.5 / 24.0}  # Table 3, of the small and of the large jobs
INTERARRIVAL = 30.0  # seconds
USERS = 8

Item = TypeVar("Item")


def generate(
    jobs: int = 480,
    seed: int = 1,
    *,
    interarrival: float = INTERARRIVAL,
    short_shape: float = 1.0,
    long_shape: float = 1.0,
) -> list[TraceJob]:
    """`jobs` jobs in order of arrival, whole seconds. The same arguments give the same jobs on every machine."""
    generator = random.Random(seed)
    sizes = _shuffled(apportion(jobs, GPUS), generator)
    models = _shuffled(apportion(jobs, dict.fromkeys(MODELS, 1)), generator)
    short = _short_ones(sizes, generator)
    durations = [_duration(generator, is_short, short_shape, long_shape) for is_short in short]
    arrivals = _arrivals(jobs, interarrival, generator)
    return [
        TraceJob(str(row), arrivals[row], sizes[row], durations[row], f"user{row % USERS}", "vc0", models[row], "Pass")
        for row in range(jobs)
    ]  # fmt: skip


def apportion(total: int, shares: Mapping[Item, int]) -> list[Item]:
    """`total` items in the proportions of `shares`, by largest remainder; ties go to the first."""
    whole = sum(shares.values())
    counts = {item: total * share // whole for item, share in shares.items()}
    by_remainder = sorted(shares, key=lambda item: -(total * shares[item] % whole))
    for item in by_remainder[: total - sum(counts.values())]:
        counts[item] += 1
    return [item for item, count in counts.items() for _ in range(count)]


def bounded_pareto(low: float, high: float, shape: float, u: float) -> float:
    """The inverse of the distribution function at `u` in [0, 1)."""
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
