"""Against an independent simulator's mean JCTs (capacity only, preemption costs nothing). The traces are not part of this
repository: the tests look for them in the folder TIRESIAS_TRACES and are skipped without them.

`bench/simulator.py reference` has the whole table; here is what fits into a minute and a half.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.scheduler.rank.gittins import Gittins
from tiresias.scheduler.rank.policies import CLAIRVOYANT, POLICIES
from tiresias.scheduler.rank.policy import Policy
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.trace import Trace, read_trace

TRACES = Path(os.environ.get("TIRESIAS_TRACES", Path(__file__).parents[3] / "shared" / "data"))
ALL: dict[str, Policy] = {**POLICIES, **CLAIRVOYANT}
TESTBED = PolicyConfig.paper()
PRODUCTION = PolicyConfig.paper(cluster="production")
FIRST_START = replace(PRODUCTION, in_queue_order="first_start")
SEEDS = (1, 2, 3)
LONG = pytest.mark.long


@cache
def trace(name: str) -> Trace:
    if not (TRACES / name).exists():
        pytest.skip(f"no {TRACES / name}")
    return read_trace(TRACES / name)


def mean_jct(jobs: Trace, cluster: ClusterSize, policy: Policy, config: PolicyConfig) -> float:
    return float(simulate(jobs, cluster, Rules(policy, config)).jct.mean())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("gpus", "policy", "config", "mean"),
    [
        pytest.param(2000, "fifo", PRODUCTION, 60_982, marks=LONG),
        pytest.param(2000, "best_effort", PRODUCTION, 46_066, marks=LONG),
        pytest.param(2000, "sf", PRODUCTION, 36_337, marks=LONG),
        pytest.param(2000, "srsf", PRODUCTION, 35_940, marks=LONG),
        pytest.param(2000, "las", PRODUCTION, 36_935, marks=LONG),
        pytest.param(2000, "las", FIRST_START, 43_638, marks=LONG),
        pytest.param(1900, "fifo", PRODUCTION, 117_322, marks=LONG),
        pytest.param(1900, "best_effort", PRODUCTION, 57_998, marks=LONG),
        pytest.param(1900, "las", PRODUCTION, 39_569, marks=LONG),
    ],
)
def test_philly(gpus: int, policy: str, config: PolicyConfig, mean: float) -> None:
    """Microsoft's public trace, to 0.1 %."""
    jobs = trace("philly_full.csv.gz")
    assert mean_jct(jobs, ClusterSize(gpus // 4, 4), ALL[policy], config) == pytest.approx(mean, rel=1e-3)


def on_testbed(seed: int, policy: Policy, config: PolicyConfig = TESTBED) -> float:
    """On the paper's workload, with heavier tails."""
    return mean_jct(trace(f"testbed480cal_seed{seed}.csv"), ClusterSize(15, 4), policy, config)


@pytest.mark.slow
def test_testbed() -> None:
    """Ratios to las. The reference is a mean over five seeds of which three are there, so they are near and not the same: srtf's
    ranges from .63 to .76 over the three, fifo's from 3.9 to 6.8."""
    las = {seed: on_testbed(seed, POLICIES["las"]) for seed in SEEDS}

    def ratio(policy: Policy, config: PolicyConfig = TESTBED) -> float:
        return sum(on_testbed(seed, policy, config) / las[seed] for seed in SEEDS) / len(SEEDS)

    assert on_testbed(1, POLICIES["fifo"]) / las[1] == pytest.approx(3.93, abs=0.005)
    assert on_testbed(2, POLICIES["fifo"]) / las[2] == pytest.approx(6.83, abs=0.05)
    assert ratio(POLICIES["las"], replace(TESTBED, in_queue_order="first_start")) == pytest.approx(1.13, abs=0.02)
    assert ratio(POLICIES["best_effort"]) == pytest.approx(1.52, abs=0.15)
    assert ratio(CLAIRVOYANT["srtf"]) == pytest.approx(0.73, abs=0.05)
    assert ratio(CLAIRVOYANT["srsf"]) == pytest.approx(0.70, abs=0.05)


@pytest.mark.slow
def test_gittins_on_the_testbed() -> None:
    """1.01 of las when it is given the services of the whole trace, as in the paper; learning them on the way is as good."""
    las = [on_testbed(seed, POLICIES["las"]) for seed in SEEDS]
    fitted, learning = [], [on_testbed(seed, POLICIES["gittins"]) for seed in SEEDS]
    for seed in SEEDS:
        jobs = trace(f"testbed480cal_seed{seed}.csv")
        fitted.append(on_testbed(seed, Gittins(Distribution(jobs.gpus * jobs.duration).within)))
    assert sum(fitted) / sum(las) == pytest.approx(1.01, abs=0.015)
    assert sum(learning) / sum(las) == pytest.approx(1.01, abs=0.015)
