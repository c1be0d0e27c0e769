"""The rule `gpu_quotas`: numbers of GPUs are guaranteed, and no shape of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from tests.scheduler.tenants.shared_cluster import (
    CONFIG,
    DECLARED,
    GPUS,
    LEAVES,
    Drawn,
    cluster_of,
    drawn_jobs,
    tenants_of,
    with_clusters,
)
from tiresias.scheduler.model import Effect, JobState, Request, Snapshot
from tiresias.scheduler.reason_codes import ReasonCode
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.gpu_quotas import GpuQuotas
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantRule
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

QUOTA = {"one": 4, "two": 12}
FIFO = dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo"))


def gpus_of(snapshot: Snapshot, states: Iterable[JobState]) -> Counter[str]:
    """GPUs that each virtual cluster requests or holds with jobs in these states."""
    jobs, found = snapshot.jobs, Counter[str]()
    for cluster, gpus, state in zip(jobs.virtual_cluster or (), jobs.gpus.tolist(), jobs.state.tolist(), strict=True):
        found[cluster] += gpus if state in states else 0
    return found


def cluster_of_job(snapshot: Snapshot) -> dict[str, str]:
    return dict(zip(snapshot.jobs.id, snapshot.jobs.virtual_cluster or (), strict=True))


@given(drawn=drawn_jobs)
def test_no_tenant_loses_gpus_of_its_quota_to_others(snapshot_of: Any, drawn: list[Drawn]) -> None:
    whole = cluster_of(snapshot_of, drawn)
    held, cluster = gpus_of(whole, [JobState.RUNNING]), cluster_of_job(whole)
    plan, _ = GpuQuotas(DECLARED).decide(whole, tenants_of())
    for each in plan.preemptions:
        victim = cluster[each.job]
        assert victim == cluster[each.beneficiary] or held[victim] > QUOTA.get(victim, 0)


@given(drawn=drawn_jobs)
def test_jobs_within_a_quota_that_fit_anywhere_start_now_or_once_others_have_left(
    snapshot_of: Any, drawn: list[Drawn]
) -> None:
    whole = cluster_of(snapshot_of, [replace(job, one_node=False) for job in drawn])
    asked, cluster = gpus_of(whole, [JobState.WAITING, JobState.RUNNING]), cluster_of_job(whole)
    plan, _ = GpuQuotas(DECLARED).decide(whole, tenants_of())
    placed = {start.job for start in (*plan.starts, *plan.reserved)}
    for job, state in zip(whole.jobs.id, whole.jobs.state.tolist(), strict=True):
        if state == JobState.WAITING and asked[cluster[job]] <= QUOTA.get(cluster[job], 0):
            assert job in placed


@given(drawn=drawn_jobs)
def test_starts_use_free_gpus(snapshot_of: Any, drawn: list[Drawn]) -> None:
    whole = cluster_of(snapshot_of, drawn)
    plan, _ = GpuQuotas(DECLARED).decide(whole, tenants_of())
    free = dict(zip(whole.nodes.name, whole.nodes.free["gpus"].tolist(), strict=True))
    for start in plan.starts:
        for name, gpus in start.nodes:
            free[name] -= gpus
    assert min(free.values()) >= 0


@pytest.mark.parametrize(("rule", "waits"), [(GpuQuotas, True), (VirtualClusterRule, False)])
def test_the_sharing_anomaly(snapshot_of: Any, rule: type[TenantRule], waits: bool) -> None:
    """Jobs of `two` within its quota use half of each node: no node remains for the job of `one`, which owns a node's GPUs."""
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    runs = [
        snapshot_of.Job(str(at), 2, JobState.RUNNING, first_start=1.0, last_start=1.0, placement=((at, 2),))
        for at in range(6)
    ]
    snapshot = snapshot_of([*runs, snapshot_of.Job("one", 4, request=Request(max_nodes=1))], nodes)
    shared = with_clusters(snapshot, (*("two",) * 6, "one"))
    plan, _ = rule(DECLARED).decide(shared, tenants_of(FIFO))  # type: ignore[call-arg]
    assert [start.job for start in plan.reserved] == ([] if waits else ["one"])
    assert bool(plan.preemptions) is not waits
    assert plan.why[6].code == ReasonCode.UNBOUND if waits else 6 not in plan.why


def test_jobs_beyond_a_quota_are_preempted_for_those_within_one(snapshot_of: Any) -> None:
    """`one` runs on all six nodes; `two` gets its twelve GPUs, and job 0, which `one` owns the GPUs for, keeps them."""
    drawn = [Drawn("one", 4, JobState.RUNNING, 0.0, node, False) for node in range(6)]
    whole = cluster_of(snapshot_of, [*drawn, Drawn("two", 8, JobState.WAITING, 0.0, 0, False)])
    plan, _ = GpuQuotas(DECLARED).decide(whole, tenants_of(FIFO))
    assert plan.effect.tolist()[0] == Effect.KEEP
    assert Counter(plan.effect.tolist())[Effect.PREEMPT] == 2
    assert {each.beneficiary for each in plan.preemptions} == {"6"}


def test_a_quota_is_of_a_gpu_type(snapshot_of: Any) -> None:
    """The job on a node of type b is beyond the quota, which has GPUs of type a alone."""
    nodes = [snapshot_of.Node(gpus=4, type="a"), snapshot_of.Node(gpus=4, type="b")]
    declared = (
        DeclaredTenant("one", (DeclaredCells("node", 1, "a"),)),
        DeclaredTenant("two", (DeclaredCells("node", 1, "b"),)),
    )
    runs = snapshot_of.Job("0", 4, JobState.RUNNING, first_start=1.0, last_start=1.0, placement=((1, 4),))
    snapshot = with_clusters(snapshot_of([runs, snapshot_of.Job("1", 4)], nodes), ("one", "two"))
    plan, _ = GpuQuotas(declared).decide(snapshot, tenants_of(FIFO))
    assert plan.effect.tolist() == [Effect.KEEP, Effect.START]  # anywhere: on the node of type a
    only_b = replace(snapshot.jobs, request=(Request(), Request(gpu_type="b")))
    plan, _ = GpuQuotas(declared).decide(replace(snapshot, jobs=only_b), tenants_of(FIFO))
    assert plan.effect.tolist() == [Effect.PREEMPT, Effect.WAIT]
