"""Nodes that fail, by hand and at random."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.policies import CLAIRVOYANT, POLICIES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.failures import Exponential, Failure, Failures, Listed, Outage, Outages
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

PAPER = PolicyConfig.paper()
CLUSTER = ClusterSize(2, 3)
ALL = {**POLICIES, **CLAIRVOYANT}


def trace(*jobs: tuple[float, int, float]) -> Trace:
    """(submit, GPUs, duration)"""
    return Trace.of(TraceJob(str(row), *job) for row, job in enumerate(jobs, start=1))


def outcome(jobs: Trace, failures: Failures, policy: str = "las", **rules: Any) -> Outcome:
    return simulate(jobs, CLUSTER, Rules(ALL[policy], PAPER, by_node=True, failures=failures, **rules))


def test_a_job_goes_on_elsewhere_from_its_last_checkpoint() -> None:
    """Job 1 is on the first node, which is down from 25 s on. With a checkpoint every 10 s it lost 5 s; to resume takes 2 s."""
    failures = Listed((Failure(25.0, 0, 1000.0),))
    jobs = trace((0, 3, 100))
    assert outcome(jobs, failures).finish.tolist() == [100.0]
    lost = outcome(jobs, failures, checkpoint_interval=10.0, cost=Cost(resume=2.0))
    assert lost.finish.tolist() == [107.0]
    assert (lost.lost, lost.overhead) == (3 * 5.0, 3 * 2.0)
    assert lost.preemptions.tolist() == [0]


def test_a_large_job_waits_until_the_node_is_back() -> None:
    """And a small one that would come after it takes what is left."""
    failures = Listed((Failure(10.0, 1, 20.0),))
    done = outcome(trace((0, 6, 30), (5, 1, 50)), failures, policy="best_effort")
    assert done.start.tolist() == [0.0, 10.0]
    assert done.finish.tolist() == [80.0, 60.0]


def test_a_job_that_is_leaving_has_saved() -> None:
    """It is preempted at 15 s and would have left at 25 s; its node fails at 18 s."""
    jobs = trace((0, 6, 100), (15, 6, 3))
    config = PolicyConfig("las", thresholds=(20.0,), min_run=0.0, min_run_cost_factor=0.0)
    rules = Rules(
        ALL["las"],
        config,
        Cost(pause=10.0),
        by_node=True,
        failures=Listed((Failure(18.0, 0, 2.0),)),
        checkpoint_interval=7.0,
    )
    done = simulate(jobs, CLUSTER, rules)
    assert done.finish.tolist() == [23.0 + 85.0, 23.0]
    assert (done.lost, done.overhead) == (0.0, 6 * 3.0)


def test_failures_need_nodes() -> None:
    with pytest.raises(UsageError, match="simulation by node"):
        Rules(ALL["las"], PAPER, failures=Listed(()))


def test_a_node_that_is_down_cannot_fail() -> None:
    outages = Outages(Listed((Failure(5, 0, 10), Failure(7, 0, 100), Failure(9, 1, 1), Failure(20, 0, 1)))(2))
    assert outages.moment == 5
    assert outages.happen(9) == [Outage(0, down=True), Outage(1, down=True)]
    assert outages.happen(15) == [Outage(1, down=False), Outage(0, down=False)]
    assert outages.happen(20) == [Outage(0, down=True)]
    assert outages.moment == 21


def test_the_same_seed_gives_the_same_failures() -> None:
    one, same, other = (list(islice(Exponential(1e5, 600.0, seed)(10), 5000)) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    time, node, down = np.array(one).T
    assert (np.diff(time) >= 0).all()
    assert np.diff(time).mean() == pytest.approx(1e4, rel=0.05)
    assert down.mean() == pytest.approx(600.0, rel=0.05)
    assert set(node) == set(range(10))


jobs = st.lists(
    st.tuples(st.integers(0, 50).map(float), st.sampled_from([1, 1, 2, 4, 6]), st.integers(0, 60).map(float)),
    min_size=1,
    max_size=12,
).map(lambda rows: trace(*rows))
some_failures = st.lists(
    st.builds(Failure, st.integers(0, 150).map(float), st.integers(0, 1), st.integers(1, 40).map(float)), max_size=6
).map(lambda each: Listed(tuple(each)))


@settings(max_examples=examples(60), deadline=None)
@given(
    jobs,
    some_failures,
    st.sampled_from(list(ALL)),
    st.sampled_from([0.0, 7.0]),
    st.sampled_from([Cost(), Cost(resume=0.5), Cost(pause=3.0)]),
)
def test_work_is_done_once_or_lost(
    jobs: Trace, failures: Any, policy: str, checkpoint_interval: float, cost: Cost
) -> None:
    done = outcome(jobs, failures, policy, checkpoint_interval=checkpoint_interval, cost=cost)
    assert np.isfinite(done.finish).all()
    assert (done.lost > 0) <= (checkpoint_interval > 0)
    timeline = done.timeline
    held = float(timeline.used[:-1] @ np.diff(timeline.time))
    assert held == pytest.approx(float(jobs.gpus @ jobs.duration) + done.overhead + done.lost, abs=1e-4)
    assert (timeline.used <= up(failures, timeline.time)).all()


def up(failures: Failures, moments: np.ndarray) -> np.ndarray:
    """GPUs of nodes that are not down."""
    outages, down, gpus = Outages(failures(CLUSTER.nodes)), set[int](), []
    for moment in moments.tolist():
        for outage in outages.happen(moment):
            (down.add if outage.down else down.discard)(outage.node)
        gpus.append(CLUSTER.gpus - len(down) * CLUSTER.gpus_per_node)
    return np.array(gpus)
