"""The policy `adaptive` on public traces, beside the fixed setting of `las` that is the best there in hindsight.

A preemption costs 62 s. The settings were found with 1 to 4 thresholds from 0.1 to 31.6 GPU-hours on, which rise by the square root
of 10, 10 or 100 times. The traces are not part of this repository: without them the tests are skipped.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.simulator.test_reference import ALL, trace
from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
COST_S = 62.0
A, B = "traces/helios_venus_may28_a.csv.gz", "traces/helios_venus_may28_b.csv.gz"
WIDE = tuple(113_760.0 * 10 ** (step / 2) for step in range(4))  # GPU-seconds
TENFOLD = tuple(3600.0 * 10**step for step in range(4))
BEST_FIXED = [
    (A, 416, WIDE),
    (A, 280, WIDE[:3]),
    (B, 344, WIDE),
    (B, 280, TENFOLD),
    ("alibaba_crux2023.csv", 1000, TENFOLD),
    ("alibaba_openb2023_gpu.csv.gz", 40, WIDE),
]
LONG = {(A, 280), (B, 344), (B, 280)}


def cases(*columns: Any) -> list[Any]:
    """Parameters, of which those on the larger loads of Helios are among the long tests."""
    return [pytest.param(*each, marks=[pytest.mark.long] if each[:2] in LONG else []) for each in columns]


@cache
def jct(name: str, gpus: int, policy: str, thresholds: tuple[float, ...]) -> tuple[float, float, float]:
    """Mean, median and 99th percentile, seconds."""
    config = replace(PolicyConfig.paper(), thresholds=thresholds, preemption_cost=COST_S)
    found = simulate(trace(name), ClusterSize(gpus // 4, 4), Rules(ALL[policy], config, Cost(resume=COST_S))).jct
    return float(found.mean()), float(np.median(found)), float(np.percentile(found, 99))


@pytest.mark.parametrize(("name", "gpus", "thresholds"), cases(*BEST_FIXED))
def test_the_mean_is_within_2_percent_and_the_median_within_10(
    name: str, gpus: int, thresholds: tuple[float, ...]
) -> None:
    mean, median, _ = jct(name, gpus, "adaptive", ())
    best_mean, best_median, _ = jct(name, gpus, "las", thresholds)
    assert mean <= 1.02 * best_mean
    assert median <= 1.1 * best_median


@pytest.mark.parametrize(("name", "gpus"), cases(*(each[:2] for each in BEST_FIXED if each[:2] != (B, 344))))
def test_the_tail_is_not_longer_than_that_of_fifo_or_srsf(name: str, gpus: int) -> None:
    """Except on b with 344 GPUs, where it is 1.09 times as long, and as long under the best setting of las."""
    tails = [jct(name, gpus, policy, ())[2] for policy in ("adaptive", "fifo", "srsf")]
    assert tails[0] <= 1.001 * max(tails[1:])
