"""What a rule keeps between decisions changes no decision: a rule that has seen other snapshots decides as a new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.tenants.cluster_replay import ClusterReplay
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
from tests.scheduler.tenants.test_virtual_cluster_rule import FIFO, LAS, replayed, small_jobs
from tiresias.scheduler.model import JobState, Plan, Request, Snapshot
from tiresias.scheduler.pool_decisions import PoolDecision
from tiresias.scheduler.tenants import virtual_cluster_rule
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.gpu_quotas import GpuQuotas
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts, HardwareBinding
from tiresias.scheduler.tenants.private_clusters import PrivateClusters
from tiresias.scheduler.tenants.tenant_decision import TenantDecision
from tiresias.scheduler.tenants.tenant_rule import TenantPolicy, TenantRule
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

Rule = Callable[[Sequence[DeclaredTenant]], TenantRule]
RULES = (VirtualClusterRule, GpuQuotas, PrivateClusters)
LIMITED = {name: replace(config, min_run=25.0) for name, config in LAS.items()}
EFFORT = dict.fromkeys(("one", "two", ""), replace(CONFIG, name="best_effort"))
SMALLER = (0, 0, 1, 1)  # the leaf of each node of a cluster with fewer nodes
many = settings(max_examples=examples(25), deadline=None)


def shown(plan: Plan) -> list[Any]:
    """All of a plan that is carried out or explained; the order of preemptions and of rebindings has no meaning."""
    columns = [plan.effect.tolist(), plan.queue.tolist(), plan.rank.tolist()]
    rebindings, preemptions = (sorted(each, key=lambda one: one.job) for each in (plan.rebindings, plan.preemptions))
    return [*columns, plan.starts, preemptions, rebindings, plan.reserved, plan.promoted, plan.why]


def shown_part(part: PoolDecision) -> list[Any]:
    """All of the decision on a pool but the names of equal virtual nodes."""
    nodes, jobs = part.snapshot.nodes, part.snapshot.jobs
    columns = [nodes.gpus.tolist(), nodes.free.amount.tolist(), nodes.usable.tolist(), nodes.features]
    return [*columns, jobs.id, jobs.state.tolist(), part.plan.effect.tolist(), part.plan.rank.tolist(), part.plan.why]


def smaller(make: Any) -> Snapshot:
    """Another cluster, on which a job of each virtual cluster waits."""
    waits = [make.Job(name, 4, submit=float(at)) for at, name in enumerate(("x", "y"))]
    return with_clusters(make(waits, [make.Node(gpus=GPUS, leaf=leaf) for leaf in SMALLER]), ("one", "two"))


@pytest.mark.parametrize("kind", RULES)
@many
@given(drawn=small_jobs, policy=st.sampled_from([FIFO, LAS, EFFORT, None]), change=st.booleans())
def test_a_kept_rule_decides_as_a_new_one(
    snapshot_of: Any, kind: Rule, drawn: list[tuple[str, int, int, int]], policy: dict[str, Any] | None, change: bool
) -> None:
    """In each state of a replay. `change`: between two decisions the nodes are others for a while."""
    rule, tenants = kind(DECLARED), tenants_of(policy) if policy else tenants_of()
    other = smaller(snapshot_of)

    def compare(snapshot: Snapshot, plan: Plan) -> None:
        expected, _ = kind(DECLARED).decide(snapshot, tenants)
        assert shown(plan) == shown(expected)
        if change:
            rule.decide(other, tenants)

    ends = ClusterReplay(snapshot_of, rule, tenants, replayed(drawn, 1), compare).run()
    assert len(ends) == len(drawn)


@many
@given(drawn=small_jobs, fast_nodes=st.lists(st.booleans(), min_size=6, max_size=6).filter(any), need=st.integers(2, 4))
def test_a_kept_rule_decides_as_a_new_one_on_nodes_with_different_features(
    snapshot_of: Any, drawn: list[tuple[str, int, int, int]], fast_nodes: list[bool], need: int
) -> None:
    """In each state of a replay. One of so many jobs as `need` needs the feature, and at most a node."""
    fast, rule, tenants = frozenset({"fast"}), new(), tenants_of(FIFO)
    jobs = replayed(drawn, 1)
    for job in jobs[::need]:
        job.gpus, job.request = min(job.gpus, GPUS), Request(features=fast, max_nodes=1)

    def compare(snapshot: Snapshot, plan: Plan) -> None:
        assert shown(plan) == shown(new().decide(snapshot, tenants)[0])

    features = [fast if each else frozenset[str]() for each in fast_nodes]
    ends = ClusterReplay(snapshot_of, rule, tenants, jobs, compare, features=features).run()
    assert len(ends) == len(drawn)


@pytest.mark.parametrize("kind", RULES)
@many
@given(sequence=st.lists(drawn_jobs, min_size=2, max_size=4), usable=st.lists(st.booleans(), min_size=6, max_size=6))
def test_the_parts_of_a_decision_are_those_of_its_snapshot(
    snapshot_of: Any, kind: Rule, sequence: list[list[Drawn]], usable: list[bool]
) -> None:
    """Also where they are read after later decisions."""
    rule, tenants = kind(DECLARED), tenants_of(LAS)
    snapshots = [cluster_of(snapshot_of, drawn) for drawn in sequence]
    decided = [rule.decide(snapshot, tenants) for snapshot in snapshots]
    rule.decide(with_nodes(snapshots[0], usable), tenants)
    for snapshot, (plan, parts) in zip(snapshots, decided, strict=True):
        expected, others = kind(DECLARED).decide(snapshot, tenants)
        assert shown(plan) == shown(expected)
        assert list(map(shown_part, parts)) == list(map(shown_part, others))


def with_nodes(snapshot: Snapshot, usable: Sequence[bool]) -> Snapshot:
    """Return the snapshot with these nodes usable. Others have nothing free."""
    nodes, free = snapshot.nodes, snapshot.nodes.free.amount.copy()
    healthy = np.array(usable, np.bool_)
    free[~healthy] = 0.0
    return replace(snapshot, nodes=replace(nodes, usable=healthy, free=replace(nodes.free, amount=free)))


def later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """The snapshot after a while in which nothing happened: all jobs have run on, or waited."""
    jobs = snapshot.jobs
    runs = jobs.state == JobState.RUNNING
    attained, ran = jobs.attained + runs * seconds * jobs.gpus, jobs.ran + runs * seconds
    jobs = replace(jobs, attained=attained, ran=ran, waited=jobs.waited + ~runs * seconds)
    return replace(snapshot, time=snapshot.time + seconds, jobs=jobs)


@many
@given(drawn=small_jobs, policy=st.sampled_from([FIFO, LAS, LIMITED, None]), seconds=st.sampled_from([0.0, 1.0, 30.0]))
def test_a_kept_rule_decides_as_a_new_one_when_time_has_passed(
    snapshot_of: Any, drawn: list[tuple[str, int, int, int]], policy: dict[str, Any] | None, seconds: float
) -> None:
    """In each state of a replay: service grows across a threshold, and minimum run times end, or nothing of it counts."""
    rule, tenants = VirtualClusterRule(DECLARED), tenants_of(policy) if policy else tenants_of()

    def compare(snapshot: Snapshot, plan: Plan) -> None:
        for after in (later(snapshot, seconds), later(snapshot, 2 * seconds)):
            (plan, parts), (expected, others) = (each.decide(after, tenants) for each in (rule, new()))
            assert shown(plan) == shown(expected)
            assert list(map(shown_part, parts)) == list(map(shown_part, others))
            rows = range(len(after.jobs))
            assert [words_of(plan, row) for row in rows] == [words_of(expected, row) for row in rows]

    ClusterReplay(snapshot_of, rule, tenants, replayed(drawn, 1), compare).run()


def new() -> VirtualClusterRule:
    return VirtualClusterRule(DECLARED)


@many
@given(
    sequence=st.lists(drawn_jobs, min_size=1, max_size=4),
    usable=st.lists(st.booleans(), min_size=6, max_size=6),
    policy=st.sampled_from([FIFO, LAS, LIMITED]),
    seconds=st.sampled_from([1.0, 30.0]),
)
def test_where_hardware_is_bad_a_kept_decision_is_the_one_that_would_be_made(
    snapshot_of: Any, sequence: list[list[Drawn]], usable: list[bool], policy: dict[str, Any], seconds: float
) -> None:
    """A rule that keeps nothing of the decision before decides the same from the same cells."""
    kept, other, tenants = new(), new(), tenants_of(policy)
    for snapshot in (with_nodes(cluster_of(snapshot_of, drawn), usable) for drawn in sequence):
        for after in (snapshot, later(snapshot, seconds), later(snapshot, 2 * seconds)):
            plan, parts = kept.decide(after, tenants)
            expected, others = decided_anew(other, after, tenants)
            assert shown(plan) == shown(expected)
            assert list(map(shown_part, parts)) == list(map(shown_part, others))


def decided_anew(
    rule: VirtualClusterRule, snapshot: Snapshot, tenants: Sequence[TenantPolicy]
) -> tuple[Plan, tuple[PoolDecision, ...]]:
    """Decide as if the snapshot differed from the one before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(virtual_cluster_rule, "differ_in_times_only", lambda *_: False)
        return rule.decide(snapshot, tenants)


def words_of(plan: Plan, row: int) -> str:
    assert plan.standing
    return plan.standing.of(row)


ONE_STARTS = (Drawn("two", 2, JobState.RUNNING, 20.0, 0, True), Drawn("two", 8, JobState.WAITING, 0.0, 0, False))


def test_decisions_are_kept_until_a_time_counts(snapshot_of: Any) -> None:
    """One job of `two` runs on its rack, and another one starts on the node next to it; then the first sinks a queue."""
    snapshot, rule, tenants = cluster_of(snapshot_of, ONE_STARTS), new(), tenants_of(LAS)
    _, (_, first, _) = rule.decide(snapshot, tenants)
    _, (_, again, _) = rule.decide(later(snapshot, 1.0), tenants)
    assert again.plan.actions is first.plan.actions
    assert again.snapshot.time == first.snapshot.time + 1.0
    _, (_, sunk, _) = rule.decide(later(snapshot, 20.0), tenants)
    assert sunk.plan.queue.tolist() != first.plan.queue.tolist()


@pytest.mark.parametrize("bad", [None, 5])
def test_starts_are_bound_once_while_only_times_change(
    snapshot_of: Any, monkeypatch: pytest.MonkeyPatch, bad: int | None
) -> None:
    """`bad`: a node that is down, on which no start depends."""
    snapshot = with_nodes(cluster_of(snapshot_of, ONE_STARTS), [row != bad for row in range(len(LEAVES))])
    rule, bind, bound = new(), HardwareBinding.run, list[Sequence[TenantDecision]]()

    def run(binding: HardwareBinding, decisions: Sequence[TenantDecision]) -> GuaranteedStarts:
        bound.append(decisions)
        return bind(binding, decisions)

    monkeypatch.setattr(HardwareBinding, "run", run)
    for seconds in (0.0, 1.0, 20.0):
        rule.decide(later(snapshot, seconds), tenants_of(LAS))
    assert len(bound) == 2, "once at first, and once as a job has sunk a queue"
