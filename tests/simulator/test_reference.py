"""Against an independent simulator's results on the paper's workload. The traces are not part of this repository: the tests look
for them where TIRESIAS_TRACES says and are skipped without them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.policies import POLICIES
from tiresias.simulator.cluster import Cluster
from tiresias.simulator.engine import simulate
from tiresias.simulator.rules import Rules
from tiresias.simulator.trace import read_trace

TRACES = Path(os.environ.get("TIRESIAS_TRACES", Path(__file__).parents[3] / "shared" / "data"))


def mean_jct(seed: int, policy: str, order: str = "running_first") -> float:
    file = TRACES / f"testbed480cal_seed{seed}.csv"
    if not file.exists():
        pytest.skip(f"no {file}")
    config = replace(PolicyConfig.paper(policy), in_queue_order=order)
    return float(simulate(read_trace(file, 60), Cluster(15, 4), Rules(POLICIES[policy], config)).jct.mean())


@pytest.mark.slow
def test_ratios_of_the_testbed_workload():
    assert mean_jct(1, "fifo") / mean_jct(1, "las") == pytest.approx(3.93, abs=0.005)
    # The range over the reference's five seeds, of which three are there.
    assert mean_jct(2, "fifo") / mean_jct(2, "las") == pytest.approx(6.83, abs=0.05)
    in_both_orders = [mean_jct(seed, "las", "first_start") / mean_jct(seed, "las") for seed in (1, 2, 3)]
    assert sum(in_both_orders) / 3 == pytest.approx(1.13, abs=0.02)
