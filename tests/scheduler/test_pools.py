"""Several pools in one snapshot are decided as each would be alone, and share nothing but Slurm's quotas."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Effect, JobState, Plan, Quota, Snapshot, Start
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.pools import NodePool, decide_pools, next_change_of, part_of
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.reasons import reason

NODES = 3  # of each pool
CONFIGS = (
    PolicyConfig(name="las", thresholds=(50.0,), min_run=0.0, min_run_cost_factor=0.0),
    PolicyConfig(name="fifo", min_run=0.0, min_run_cost_factor=0.0),
)


@st.composite
def jobs_of_two_pools(draw: st.DrawFn) -> list[tuple[int, int, int, float, int]]:
    """NodePool, GPUs, state, attained service and node (within the pool) of each."""
    one = st.tuples(
        st.integers(0, 1),
        st.integers(1, 6),
        st.sampled_from([0, 1, 1, 2]),
        st.sampled_from([0.0, 20.0, 80.0]),
        st.integers(0, NODES - 1),
    )
    return draw(st.lists(one, min_size=1, max_size=14))


def snapshot_with(make: Any, drawn: list[tuple[int, int, int, float, int]], shift: bool, only: int | None) -> Snapshot:
    """`shift`: the nodes of the second pool come after those of the first. `only`: a pool."""
    free = {(pool, node): 4 for pool in (0, 1) for node in range(NODES)}
    jobs = []
    for number, (pool, gpus, state, attained, node) in enumerate(drawn):
        runs = state != JobState.WAITING and gpus <= free[pool, node]
        free[pool, node] -= gpus if runs else 0
        at = node + (NODES if shift and pool else 0)
        job = make.Job(
            str(number), gpus, JobState(state) if runs else JobState.WAITING, attained, attained / gpus, submit=float(number),
            first_start=1.0, last_start=1.0, placement=((at, gpus),) if runs else None,
        )  # fmt: skip
        if only in (None, pool):
            jobs.append(job)
    return make(jobs, [make.Node()] * (2 * NODES if shift else NODES))  # type: ignore[no-any-return]


def pools_of(drawn: list[tuple[int, int, int, float, int]]) -> list[NodePool]:
    side = np.array([one[0] for one in drawn])
    return [
        NodePool(np.flatnonzero(side == each), np.arange(NODES) + each * NODES, config, POLICIES[config.name])
        for each, config in enumerate(CONFIGS)
    ]


def shifted(starts: tuple[Start, ...], by: int) -> list[Start]:
    def there(name: str) -> str:
        return re.sub(r"\d+", lambda found: str(int(found[0]) + by), name)

    return [Start(one.job, tuple((there(name), gpus) for name, gpus in one.nodes)) for one in starts]


@given(drawn=jobs_of_two_pools())
def test_each_pool_is_decided_as_if_it_were_alone(
    snapshot_of: Callable[..., Snapshot], drawn: list[tuple[int, int, int, float, int]]
) -> None:
    whole, pools = snapshot_with(snapshot_of, drawn, shift=True, only=None), pools_of(drawn)
    plan, parts = decide_pools(whole, pools)
    starts, reserved, preemptions = list[Start](), list[Start](), list[Any]()
    for each, (pool, part) in enumerate(zip(pools, parts, strict=True)):
        alone = snapshot_with(snapshot_of, drawn, shift=False, only=each)
        expected = decide(alone, pool.config)
        assert plan.effect[pool.jobs].tolist() == expected.effect.tolist()
        assert plan.queue[pool.jobs].tolist() == expected.queue.tolist()
        starts += shifted(expected.starts, each * NODES)
        reserved += shifted(expected.reserved, each * NODES)
        preemptions += expected.preemptions
        for row in range(len(alone.jobs)):
            assert plan.standing
            assert expected.standing
            assert plan.standing.of(int(pool.jobs[row])) == expected.standing.of(row)
            assert reason(part.plan, part.snapshot, row) == reason_there(expected, alone, row, each)
    assert (list(plan.starts), list(plan.reserved), list(plan.preemptions)) == (starts, reserved, preemptions)
    assert sorted(plan.rank.tolist()) == list(range(len(drawn)))
    assert next_change_of(parts) == min(next_change(part.snapshot, part.pool.config) for part in parts)


def reason_there(plan: Plan, snapshot: Snapshot, row: int, each: int) -> str:
    return re.sub(r"\bn(\d)\b", lambda found: f"n{int(found[1]) + each * NODES}", reason(plan, snapshot, row))


@given(drawn=jobs_of_two_pools())
def test_one_pool_is_what_there_was_before(
    snapshot_of: Callable[..., Snapshot], drawn: list[tuple[int, int, int, float, int]]
) -> None:
    whole = snapshot_with(snapshot_of, drawn, shift=True, only=None)
    pool = NodePool(np.arange(len(drawn)), np.arange(2 * NODES), CONFIGS[0], POLICIES["las"])
    plan, (part,) = decide_pools(whole, [pool])
    expected = decide(whole, CONFIGS[0])
    assert (plan.starts, plan.preemptions, plan.reserved) == (expected.starts, expected.preemptions, expected.reserved)
    assert part.snapshot is whole
    own = part_of(whole, pool)
    assert np.array_equal(own.allocations.node, whole.allocations.node)
    assert own.jobs.id == whole.jobs.id


def test_a_quota_is_taken_once(snapshot_of: Any) -> None:
    """Four GPUs are left of a limit that counts the jobs of both pools."""
    drawn = [(0, 3, 0, 0.0, 0), (1, 3, 0, 0.0, 0), (1, 1, 0, 0.0, 0)]
    whole = snapshot_with(snapshot_of, drawn, shift=True, only=None)
    limited = replace(whole, quotas=(Quota("QOSMaxGRES", 4.0, {0: 3.0, 1: 3.0, 2: 1.0}),))
    plan, _ = decide_pools(limited, pools_of(drawn))
    assert plan.effect.tolist() == [Effect.START, Effect.WAIT, Effect.START]


def test_elastic_jobs_change_their_size_within_their_pool(snapshot_of: Any) -> None:
    """The first job of each pool runs; in the second one GPUs are idle."""
    config = PolicyConfig(name="fifo", sizing="minimum_first", preemption_cost=60.0, min_run=0.0)
    jobs = [
        snapshot_of.Job(str(number), 8, JobState.RUNNING, ran=600.0, movable=True, placement=((number, 8),))
        for number in (0, 1)
    ]
    whole = snapshot_of(jobs, [snapshot_of.Node(8), snapshot_of.Node(8), snapshot_of.Node(8)])
    sizes = {"min_gpus": np.array([2, 2]), "max_gpus": np.array([16, 16]), "gpu_step": np.array([2, 2])}
    whole = replace(whole, jobs=replace(whole.jobs, **sizes))
    pools = [
        NodePool(np.array([each]), np.array(nodes), config, POLICIES["fifo"])
        for each, nodes in enumerate(([0], [1, 2]))
    ]
    plan, _ = decide_pools(whole, pools)
    assert [(one.job, one.gpus) for one in plan.resizes] == [("1", 16)]
