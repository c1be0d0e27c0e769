"""Pools in which no job can start: what is left out for them is what `decide` would have found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import (
    any_jobs,
    any_nodes,
    build,
    many,
    policies,
    some_promises,
    styled_jobs,
    with_promises,
)
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.idle_pools import idle_plan, idle_pools
from tiresias.scheduler.model import Effect, JobState, Plan, Quota, Request, Snapshot
from tiresias.scheduler.pool_decisions import NodePool
from tiresias.scheduler.pool_ranks import PooledJobs, PoolRanks
from tiresias.scheduler.pools import gpus_of
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.reason_codes import ReasonCode
from tiresias.scheduler.table_rows import rows_of


def ranks_of(snapshot: Snapshot, config: PolicyConfig) -> PoolRanks:
    """The ranks of one pool of all jobs."""
    stages = [(config, POLICIES[config.name])]
    return PoolRanks(PooledJobs(snapshot.time, snapshot.jobs, np.zeros(len(snapshot.jobs), np.int64), stages))


def idle(snapshot: Snapshot, config: PolicyConfig) -> bool:
    """Whether no job can start where all jobs and nodes are one pool."""
    ranks = ranks_of(snapshot, config)
    pool = NodePool(np.arange(len(snapshot.jobs)), np.arange(len(snapshot.nodes)), config, POLICIES[config.name])
    found = idle_pools(ranks, lambda: gpus_of(snapshot, [pool], ranks.pooled.pool), snapshot.quotas)
    return bool(found.idle[0])


def shown(plan: Plan, jobs: int) -> list[Any]:
    assert plan.standing
    standing = [plan.standing.of(row) for row in range(jobs)]
    columns = [plan.effect.tolist(), plan.queue.tolist(), plan.rank.tolist()]
    return [*columns, plan.actions, plan.reserved, plan.promoted, plan.why, standing]


@many
@given(
    st.one_of(any_jobs, styled_jobs),
    any_nodes,
    policies,
    st.one_of(st.none(), some_promises),
    st.booleans(),
    st.booleans(),
)
def test_the_plan_of_an_idle_pool_is_that_of_decide(
    snapshot_of: Any,
    jobs: Any,
    nodes: Any,
    config: PolicyConfig,
    promises: list[int] | None,
    on_trial: bool,
    limited: bool,
) -> None:
    snapshot = build(snapshot_of, jobs, nodes)
    if promises:
        snapshot = with_promises(snapshot, promises)
    if on_trial:
        snapshot = replace(snapshot, jobs=replace(snapshot.jobs, free_only=np.arange(len(snapshot.jobs)) % 2 == 0))
    if limited:
        snapshot = replace(snapshot, quotas=(Quota("QOSMaxGRES", 3.0, {0: 2.0, 3: 2.0}),) if len(jobs) > 3 else ())
    if idle(snapshot, config):
        policy = POLICIES[config.name]
        expected = decide(snapshot, config)
        found = idle_plan(snapshot, config, policy, policy.rank(snapshot, config))
        assert shown(found, len(jobs)) == shown(expected, len(jobs))
        assert not found.actions
        assert not found.reserved


@many
@given(any_jobs, any_nodes, st.lists(policies, min_size=2, max_size=4), st.integers(0, 5))
def test_each_pool_has_the_order_of_its_policy(
    snapshot_of: Any, jobs: Any, nodes: Any, configs: list[PolicyConfig], seed: int
) -> None:
    """Also where some jobs are in no pool."""
    snapshot = build(snapshot_of, jobs, nodes)
    pool = np.random.default_rng(seed).integers(-1, len(configs) + 1, len(jobs)) % (len(configs) + 1) - 1
    stages = [(config, POLICIES[config.name]) for config in configs]
    stages.append(stages[0])  # two pools with one policy
    pool = np.where(pool == len(configs) - 1, len(configs), pool)
    ranks = PoolRanks(PooledJobs(snapshot.time, snapshot.jobs, pool, stages))
    for at, (config, policy) in enumerate(stages):
        rows = np.flatnonzero(pool == at)
        own = replace(snapshot, jobs=rows_of(snapshot.jobs, rows))
        found, expected = ranks.of(at, rows), policy.rank(own, config)
        assert found
        assert found.order.tolist() == expected.order.tolist()
        assert found.queue.tolist() == expected.queue.tolist()
        assert found.promoted.tolist() == expected.promoted.tolist()


@pytest.mark.parametrize("name", ["las", "fifo", "best_effort"])
def test_a_pool_is_idle_until_a_waiting_job_fits(snapshot_of: Any, name: str) -> None:
    """Two GPUs are free; a job that may be preempted holds two, and goes first."""
    config = PolicyConfig(name=name, min_run=0.0, min_run_cost_factor=0.0)
    runs = snapshot_of.Job("1", 2, JobState.RUNNING, 0.0, 10.0, submit=0.0, first_start=900.0, last_start=900.0)
    waits = [snapshot_of.Job(str(row), gpus, submit=float(row), attained=0.0) for row, gpus in ((2, 3), (3, 4))]
    nodes = [snapshot_of.Node(gpus=4)]
    assert idle(snapshot_of([runs, *waits], nodes), config)
    plan = decide(snapshot_of([runs, *waits], nodes), config)
    assert plan.effect.tolist() == [Effect.KEEP, Effect.WAIT, Effect.WAIT]
    assert not idle(snapshot_of([runs, snapshot_of.Job("2", 2, submit=2.0), waits[1]], nodes), config)
    impossible = snapshot_of.Job("2", 4, submit=2.0, request=Request(max_nodes=1, min_nodes=2))
    later = snapshot_of.Job("3", 2, submit=3.0)
    assert not idle(snapshot_of([runs, impossible, later], nodes), config)


def test_jobs_after_the_first_one_of_a_strict_order_have_that_reason(snapshot_of: Any) -> None:
    config = PolicyConfig(name="fifo")
    waits = [snapshot_of.Job(str(row), gpus, submit=float(row)) for row, gpus in ((2, 4), (3, 1))]
    runs = snapshot_of.Job("1", 2, JobState.RUNNING, first_start=900.0, last_start=900.0)
    snapshot = snapshot_of([runs, *waits], [snapshot_of.Node(gpus=4)])
    policy = POLICIES["fifo"]
    plan = idle_plan(snapshot, config, policy, policy.rank(snapshot, config))
    assert {row: reason.code for row, reason in plan.why.items()} == {2: ReasonCode.STRICT_FIFO}
