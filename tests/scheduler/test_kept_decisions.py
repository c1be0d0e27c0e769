"""Decisions that are kept where only times differ are those that would be made."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import any_jobs, any_nodes, build, many, policies
from tests.scheduler.test_kept_plans import FIFO, later, shown
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.kept_plans import differ_in_times_only
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.pool_decisions import KeptDecisions, NodePool, PoolDecisions, decide_each
from tiresias.scheduler.pool_ranks import PooledJobs
from tiresias.scheduler.pools import gpus_of
from tiresias.scheduler.rank.policies import POLICIES

TIMES = ("attained", "ran", "waited", "submit", "last_start", "preempted")
SECONDS = [0.0, 1.0, 60.0, 1000.0, 30_000.0]
changes = st.lists(
    st.tuples(st.sampled_from(SECONDS), st.sampled_from(TIMES), st.integers(0, 13)), min_size=1, max_size=5
)


def decided(kept: KeptDecisions, snapshot: Snapshot, config: PolicyConfig, *, again: bool) -> PoolDecisions:
    """Decide on all jobs as one pool. `again`: the newest decision was made on a snapshot that differs in times only."""
    jobs, policy = snapshot.jobs, POLICIES[config.name]
    pool = NodePool(np.arange(len(jobs)), np.arange(len(snapshot.nodes)), config, policy)
    of_job = np.zeros(len(jobs), np.int64)
    return decide_each(
        PooledJobs(snapshot.time, jobs, of_job, [(config, policy)]),
        [pool],
        lambda: gpus_of(snapshot, [pool], of_job),
        (),
        lambda _at, _left: snapshot,
        kept,
        again,
    )


@many
@given(any_jobs, any_nodes, policies, changes)
def test_kept_decisions_are_those_that_would_be_made(
    snapshot_of: Any, jobs: Any, nodes: Any, config: PolicyConfig, changed: list[tuple[float, str, int]]
) -> None:
    snapshot, kept = build(snapshot_of, jobs, nodes), KeptDecisions()
    decided(kept, snapshot, config, again=False)
    for change in changed:
        before, snapshot = snapshot, later(snapshot, *change)
        found = decided(kept, snapshot, config, again=differ_in_times_only(before, snapshot))
        expected = decided(KeptDecisions(), snapshot, config, again=False)
        assert [shown(part.plan) for part in found.parts] == [shown(part.plan) for part in expected.parts]
        assert [_words(part.plan) for part in found.parts] == [_words(part.plan) for part in expected.parts]
        assert found.blocked.tolist() == expected.blocked.tolist()


def _words(plan: Any) -> list[str]:
    return [plan.standing.of(row) for row in range(len(plan.effect))]


def test_decisions_are_kept_until_an_order_changes(snapshot_of: Any) -> None:
    jobs = [
        snapshot_of.Job("a", 4, JobState.RUNNING, placement=((0, 4),)),
        snapshot_of.Job("b", 2),
        snapshot_of.Job("c", 4),
    ]
    snapshot, kept = snapshot_of(jobs, [snapshot_of.Node(gpus=4), snapshot_of.Node(gpus=4)]), KeptDecisions()
    first = decided(kept, snapshot, FIFO, again=False)
    runs_on = later(snapshot, 60.0, "attained", 0)
    again = decided(kept, runs_on, FIFO, again=True)
    assert again.kept
    assert again.parts[0].plan.actions is first.parts[0].plan.actions
    assert again.parts[0].snapshot is runs_on
    assert not decided(kept, later(runs_on, 60.0, "submit", 1), FIFO, again=True).kept


def test_a_minimum_run_time_that_ends_counts(snapshot_of: Any) -> None:
    """The order stays: the job that waits is more urgent all the time."""
    runs = snapshot_of.Job("a", 4, JobState.RUNNING, 5000.0, 5.0, last_start=995.0, placement=((0, 4),))
    snapshot = snapshot_of([runs, snapshot_of.Job("b", 4)], [snapshot_of.Node(gpus=4)])
    config, kept = replace(FIFO, name="las", thresholds=(3200.0,), min_run=60.0, starve_limit=math.inf), KeptDecisions()
    assert not decided(kept, snapshot, config, again=False).parts[0].plan.preemptions
    assert decided(kept, later(snapshot, 1.0, "waited", 1), config, again=True).kept
    (part,) = decided(kept, later(snapshot, 60.0, "waited", 1), config, again=True).parts
    assert [each.job for each in part.plan.preemptions] == ["a"]


def test_a_queue_that_changes_counts(snapshot_of: Any) -> None:
    runs = snapshot_of.Job("a", 4, JobState.RUNNING, 3199.0, 800.0, placement=((0, 4),))
    snapshot, kept = snapshot_of([runs], [snapshot_of.Node(gpus=4)]), KeptDecisions()
    config = replace(FIFO, name="las", thresholds=(3200.0,))
    decided(kept, snapshot, config, again=False)
    assert not decided(kept, later(snapshot, 1.0, "attained", 0), config, again=True).kept


def test_nothing_is_kept_where_times_are_weighed(snapshot_of: Any) -> None:
    snapshot, kept = snapshot_of([snapshot_of.Job("a", 2)], [snapshot_of.Node()]), KeptDecisions()
    config = replace(FIFO, defragment=2)
    decided(kept, snapshot, config, again=False)
    assert not decided(kept, snapshot, config, again=True).kept
