"""Remote memory: no more is promised than donors can lend, other nodes can lend it, and jobs without it are decided as before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import any_jobs, any_nodes, build, many, policies
from tests.scheduler.tenants.shared_cluster import DECLARED, Drawn, cluster_of, drawn_jobs, tenants_of
from tiresias.scheduler.admit.remote_memory import REMOTE_MEMORY, lent_at_most, unpromised, with_remote_memory
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import JobState, Plan, Request, Snapshot
from tiresias.scheduler.reasons import reason
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

FIFO = PolicyConfig(name="best_effort")
amounts_of_memory = st.sampled_from([0.0, 0.0, 50.0, 300.0, 1e6])
some_remote = st.lists(amounts_of_memory, min_size=14, max_size=14)
lends = st.lists(st.sampled_from([0.0, 100.0, 400.0]), min_size=6, max_size=6)


def with_requests(snapshot: Snapshot, remote: list[float]) -> Snapshot:
    asked = zip(snapshot.jobs.request, remote, strict=False)
    requests = tuple(replace(request, remote_memory=amount) for request, amount in asked)
    return replace(snapshot, jobs=replace(snapshot.jobs, request=requests))


def remote_of(snapshot: Snapshot, job: str) -> float:
    return snapshot.jobs.request[snapshot.jobs.id.index(job)].remote_memory


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.integers(0, 3), st.floats(0, 1e6)),
        min_size=1,
        max_size=12,
    )
)
def test_what_is_left_is_what_donors_lend_without_the_promises(rows: list[tuple[float, int, float]]) -> None:
    lent, leaf, promised = (np.array(column) for column in zip(*rows, strict=True))
    left = unpromised(lent, leaf, promised)
    assert (left >= 0).all()
    assert (left <= lent * (1 + 1e-9)).all()
    assert left.sum() == pytest.approx(max(lent.sum() - promised.sum(), 0.0), rel=1e-6, abs=1e-3)


def test_promises_count_at_donors_under_the_same_leaf_switch_first() -> None:
    lent, leaf = np.array([100.0, 100.0, 100.0]), np.array([0, 0, 1])
    assert unpromised(lent, leaf, np.array([150.0, 0.0, 0.0])).tolist() == [25.0, 25.0, 100.0]
    assert unpromised(lent, leaf, np.array([250.0, 0.0, 0.0])).tolist() == [0.0, 0.0, 50.0]


def test_a_donor_keeps_headroom_and_half_of_the_node() -> None:
    assert lent_at_most(np.array([800.0] * 3), np.array([800.0, 300.0, 50.0])).tolist() == [400.0, 200.0, 0.0]


@many
@given(any_jobs, any_nodes, policies, some_remote, lends)
def test_no_more_is_promised_than_donors_lend(
    snapshot_of: Any, of_jobs: Any, of_nodes: Any, config: PolicyConfig, remote: list[float], lent: list[float]
) -> None:
    snapshot = with_requests(build(snapshot_of, of_jobs, of_nodes), remote)
    donors = np.array(lent[: len(snapshot.nodes)])
    shown = with_remote_memory(snapshot, donors)
    plan = decide(shown, config)
    holding = [row for row, state in enumerate(snapshot.jobs.state) if state != JobState.WAITING]
    before = sum(snapshot.jobs.request[row].remote_memory for row in holding)
    starting = [start.job for start in (*plan.starts, *plan.reserved)]
    taken = sum(remote_of(shown, job) for job in starting)
    assert taken == 0 or taken + before <= donors.sum() + 1e-3
    names = snapshot.nodes.name.index
    for start in plan.starts:
        for name, _ in start.nodes:
            assert remote_of(shown, start.job) / len(start.nodes) <= np.delete(donors, names(name)).sum() + 1e-3
    waiting = {start.job for start in plan.reserved}
    for preemption in plan.preemptions:
        assert preemption.beneficiary in waiting  # none is made for a job that the limit keeps waiting


@many
@given(any_jobs, any_nodes, policies, lends)
def test_jobs_without_remote_memory_are_decided_as_before(
    snapshot_of: Any, of_jobs: Any, of_nodes: Any, config: PolicyConfig, lent: list[float]
) -> None:
    snapshot = build(snapshot_of, of_jobs, of_nodes)
    donors = np.array(lent[: len(snapshot.nodes)])
    assert with_remote_memory(snapshot, donors) is snapshot
    assert same(
        decide(snapshot, config),
        decide(replace(snapshot, nodes=replace(snapshot.nodes, lendable=donors)), config),
    )


def same(one: Plan, other: Plan) -> bool:
    return one.actions == other.actions and one.reserved == other.reserved and bool((one.effect == other.effect).all())


def test_a_job_waits_for_remote_memory_and_the_reason_has_both_amounts(snapshot_of: Any) -> None:
    jobs = [
        snapshot_of.Job("first", 1, request=Request(remote_memory=300.0)),
        snapshot_of.Job("second", 1, submit=1.0, request=Request(remote_memory=300.0)),
        snapshot_of.Job("plain", 1, submit=2.0),
    ]
    snapshot = with_remote_memory(snapshot_of(jobs, [snapshot_of.Node()] * 2), np.array([500.0, 50.0]))
    assert snapshot.quotas[0].reason == REMOTE_MEMORY
    plan = decide(snapshot, FIFO)
    assert {start.job: start.nodes for start in plan.starts} == {"first": (("n1", 1),), "plain": (("n1", 1),)}
    assert reason(plan, snapshot, 1) == (
        "Waiting: 300 MiB of remote memory requested, 250 MiB remain after higher-ranked jobs"
    )


def test_a_running_job_keeps_its_promise(snapshot_of: Any) -> None:
    jobs = [
        snapshot_of.Job("runs", 1, JobState.RUNNING, movable=False, request=Request(remote_memory=300.0)),
        snapshot_of.Job("waits", 1, request=Request(remote_memory=300.0)),
    ]
    nodes = [snapshot_of.Node()] * 2
    assert not decide(with_remote_memory(snapshot_of(jobs, nodes), np.array([250.0, 250.0])), FIFO).starts
    assert decide(with_remote_memory(snapshot_of(jobs, nodes), np.array([500.0, 500.0])), FIFO).starts


@many
@given(drawn_jobs, some_remote, lends)
def test_virtual_clusters_share_the_limit(
    snapshot_of: Any, drawn: list[Drawn], remote: list[float], lent: list[float]
) -> None:
    snapshot = with_requests(cluster_of(snapshot_of, drawn), remote)
    donors = np.array(lent)
    shown = with_remote_memory(snapshot, donors)
    plan, _ = VirtualClusterRule(DECLARED).decide(shown, tenants_of())
    holding = [row for row, state in enumerate(snapshot.jobs.state) if state != JobState.WAITING]
    before = sum(snapshot.jobs.request[row].remote_memory for row in holding)
    taken = sum(remote_of(shown, start.job) for start in plan.starts)
    assert taken == 0 or taken + before <= donors.sum() + 1e-3
