"""Each virtual cluster has nodes of its own, whatever the others do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.tenants.shared_cluster import (
    DECLARED,
    GPUS,
    LEAVES,
    NODES_OF,
    Drawn,
    cluster_of,
    drawn_jobs,
    tenants_of,
    with_clusters,
)
from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Effect, JobState, Nodes, Plan, Snapshot
from tiresias.scheduler.pools import next_change_of, rows_of
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.private_clusters import PrivateClusters, partition
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES, tenant_rule

Build = Callable[..., Snapshot]


def names_of(nodes: Nodes, owned: dict[str, Any]) -> dict[str, set[str]]:
    return {tenant: {nodes.name[row] for row in rows.tolist()} for tenant, rows in owned.items()}


def decided(plan: Plan, snapshot: Snapshot, cluster: str) -> Any:
    """What happens to the jobs of one virtual cluster."""
    own = [
        job for job, name in zip(snapshot.jobs.id, snapshot.jobs.virtual_cluster or (), strict=True) if name == cluster
    ]
    effect = dict(zip(snapshot.jobs.id, plan.effect.tolist(), strict=True))
    starts = [start for start in (*plan.starts, *plan.reserved) if start.job in own]
    return [effect[job] for job in own], starts, [each for each in plan.preemptions if each.job in own]


@given(drawn=drawn_jobs)
def test_no_decision_depends_on_jobs_of_another_virtual_cluster(snapshot_of: Build, drawn: list[Drawn]) -> None:
    rule = PrivateClusters(DECLARED)
    whole = cluster_of(snapshot_of, drawn, in_own=True)
    plan, parts = rule.decide(whole, tenants_of())
    for name in ("one", "two"):
        alone = cluster_of(snapshot_of, drawn, in_own=True, only=name)
        expected, _ = rule.decide(alone, tenants_of())
        assert decided(plan, whole, name) == decided(expected, alone, name)
    assert next_change_of(parts) > 0


@given(drawn=drawn_jobs)
def test_jobs_start_on_own_nodes_and_those_elsewhere_keep_theirs(snapshot_of: Build, drawn: list[Drawn]) -> None:
    """Running jobs are on any nodes, as after a change of the configuration."""
    whole = cluster_of(snapshot_of, drawn)
    plan, _ = PrivateClusters(DECLARED).decide(whole, tenants_of())
    cluster = dict(zip(whole.jobs.id, whole.jobs.virtual_cluster or (), strict=True))
    free = dict(zip(whole.nodes.name, whole.nodes.free["gpus"].tolist(), strict=True))
    for start in (*plan.starts, *plan.reserved):
        own = {f"n{node}" for node in NODES_OF.get(cluster[start.job], NODES_OF[OUTSIDE])}
        assert {name for name, _ in start.nodes} <= own
    for start in plan.starts:
        for name, gpus in start.nodes:
            free[name] -= gpus
    assert min(free.values()) >= 0
    for row, node in zip(whole.allocations.job.tolist(), whole.allocations.node.tolist(), strict=True):
        if node not in NODES_OF.get(cluster[whole.jobs.id[row]], NODES_OF[OUTSIDE]):
            assert plan.effect[row] in (Effect.KEEP, Effect.RELEASE)


def test_a_job_on_foreign_nodes_is_waited_for(snapshot_of: Any) -> None:
    """Job a of `one` runs on a node of `two`: it keeps its GPUs, although job b needs them, and b starts once they are free."""
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    runs = snapshot_of.Job("a", 4, JobState.RUNNING, 999.0, 99.0, first_start=1.0, last_start=1.0, placement=((0, 4),))
    rule, jobs = PrivateClusters(DECLARED), [runs, snapshot_of.Job("b", 12)]
    before, _ = rule.decide(with_clusters(snapshot_of(jobs, nodes), ("one", "two")), tenants_of())
    assert before.effect.tolist() == [Effect.KEEP, Effect.WAIT]
    after, _ = rule.decide(with_clusters(snapshot_of(jobs[1:], nodes), ("two",)), tenants_of())
    assert after.effect.tolist() == [Effect.START]


def test_large_cells_are_taken_first(snapshot_of: Any) -> None:
    """Were the node of `one` taken first, it would be in the rack that `two` owns."""
    nodes = cluster_of(snapshot_of, []).nodes
    assert {name: tuple(rows) for name, rows in partition(nodes, DECLARED).items()} == NODES_OF


@given(order=st.permutations(range(6)), usable=st.lists(st.booleans(), min_size=6, max_size=6))
def test_the_partition_depends_on_names_gpus_and_topology_alone(
    snapshot_of: Build, order: Sequence[int], usable: list[bool]
) -> None:
    nodes = cluster_of(snapshot_of, [Drawn("one", 3, JobState.RUNNING, 0.0, 1, False)]).nodes
    other = rows_of(replace(nodes, usable=np.array(usable)), np.array(order))
    assert names_of(nodes, partition(nodes, DECLARED)) == names_of(other, partition(other, DECLARED))


def test_the_partition_follows_a_change_of_the_nodes(snapshot_of: Any) -> None:
    rule, whole = PrivateClusters(DECLARED), cluster_of(snapshot_of, [Drawn("two", 8, JobState.WAITING, 0.0, 0, False)])
    assert rule.decide(whole, tenants_of())[0].starts[0].nodes == (("n0", 4), ("n1", 4))
    smaller = replace(whole, nodes=rows_of(whole.nodes, np.array([1, 2, 3, 4, 5])))
    with pytest.raises(UsageError, match="the cells of level node differ"):
        rule.decide(smaller, tenants_of())
    assert rule.decide(whole, tenants_of())[0].starts[0].nodes == (("n0", 4), ("n1", 4))


def test_a_node_that_is_down_is_not_replaced(snapshot_of: Any) -> None:
    whole = cluster_of(snapshot_of, [Drawn("one", 2, JobState.WAITING, 0.0, 0, False)])
    down = replace(whole, nodes=replace(whole.nodes, usable=np.array([True, True, False, True, True, True])))
    plan, _ = PrivateClusters(DECLARED).decide(down, tenants_of())
    assert plan.effect.tolist() == [Effect.WAIT]


def test_a_rule_and_virtual_clusters_belong_together() -> None:
    assert isinstance(tenant_rule("private_clusters", DECLARED), PrivateClusters)
    assert tenant_rule("shared", ()) is None
    with pytest.raises(UsageError, match="admission private_clusters: no virtual clusters are declared"):
        tenant_rule("private_clusters", ())
    with pytest.raises(UsageError, match="admission shared has no virtual clusters"):
        tenant_rule("shared", DECLARED)


@pytest.mark.parametrize("name", TENANT_RULES)
def test_a_configuration_names_each_rule(name: str) -> None:
    assert PolicyConfig(admission=name).admission == name
    with pytest.raises(UsageError, match=f"admission = 'none' is not possible; allowed: shared, .*{name}"):
        PolicyConfig(admission="none")


def test_cells_that_do_not_fit(snapshot_of: Any) -> None:
    nodes = cluster_of(snapshot_of, []).nodes
    with pytest.raises(UsageError, match="own 4 cells of type leaf"):
        partition(nodes, (DeclaredTenant("one", (DeclaredCells("leaf", 4),)),))
