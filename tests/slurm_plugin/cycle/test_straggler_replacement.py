from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.scheduler.conftest import Builder
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.estimates.stragglers import SlowNode
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.slurm_plugin.cycle.straggler_replacement import Replacement, replacements

POLICY = PolicyConfig(preemption_cost=60.0)


@pytest.fixture
def running() -> Snapshot:
    """A job on two nodes of three."""
    build = Builder()
    job = build.Job(
        "1", 8, JobState.RUNNING, ran=500.0, first_start=500.0, last_start=500.0, placement=((0, 4), (1, 4))
    )
    return build([job], [build.Node()] * 3)


def found(
    snapshot: Snapshot, policy: PolicyConfig = POLICY, ratio: float = 5.0, speedup: float | None = None
) -> list[Replacement]:
    slow = {"1": {"n0": SlowNode(ratio, speedup or ratio)}, "ended": {"n0": SlowNode(9.0, 9.0)}}
    return [*replacements(snapshot, decide(snapshot, policy), slow, policy)]


def test_a_job_leaves_its_slow_node(running: Snapshot) -> None:
    [one] = found(running)
    assert (one.job, one.nodes) == ("1", frozenset({"n0"}))
    assert one.why == "so that it starts again without n0 (5.0 times as slow as the median)"


def test_it_stays_where_that_gains_less_than_it_costs(running: Snapshot) -> None:
    costly = replace(running, jobs=replace(running.jobs, preemption_cost=np.array([2000.0])))
    assert not found(costly)
    assert found(replace(costly, jobs=replace(costly.jobs, preemption_cost=np.array([1500.0]))))
    assert not found(running, PolicyConfig(preemption_cost=1300.0), ratio=2.0)


def test_a_slow_server_counts_by_what_a_step_would_be_shorter(running: Snapshot) -> None:
    costs = PolicyConfig(preemption_cost=300.0)
    assert found(running, costs, ratio=5.0, speedup=1.2)
    assert not found(running, costs, ratio=5.0, speedup=1.1)


def test_it_stays_where_it_may_not_be_preempted_or_no_other_node_has_free_gpus(running: Snapshot) -> None:
    assert not found(replace(running, jobs=replace(running.jobs, movable=np.array([False]))))
    usable = np.array([True, True, False])
    assert not found(replace(running, nodes=replace(running.nodes, usable=usable)))
