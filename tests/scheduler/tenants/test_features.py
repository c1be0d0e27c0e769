"""Virtual clusters on nodes with different features: what a job finds on virtual nodes that are not bound yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.scheduler.tenants.shared_cluster import GPUS, LEAVES, tenants_of, with_clusters
from tests.scheduler.tenants.test_jobs_beyond_cells import LAS, NOW, running
from tiresias.scheduler.model import Plan, Request, Snapshot
from tiresias.scheduler.pool_decisions import PoolDecision
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

FAST, PLAIN = frozenset({"fast"}), frozenset[str]()


def shown(make: Any, jobs: Sequence[Any], clusters: Sequence[str], fast_nodes: int) -> Snapshot:
    """The jobs, the first one in a cell; the first nodes have the feature."""
    nodes = [
        make.Node(gpus=GPUS, leaf=leaf, features=FAST if at < fast_nodes else PLAIN) for at, leaf in enumerate(LEAVES)
    ]
    found = with_clusters(make(jobs, nodes, NOW), clusters)
    return replace(found, allocations=replace(found.allocations, owned_cell=("node",)))


def decided(snapshot: Snapshot, owned: int) -> tuple[Plan, tuple[PoolDecision, ...]]:
    """The decision with so many nodes for each virtual cluster."""
    rule = VirtualClusterRule([DeclaredTenant(name, (DeclaredCells("node", owned),)) for name in ("one", "two")])
    return rule.decide(snapshot, tenants_of(LAS))


def test_a_job_preempts_a_lower_ranked_one_on_the_only_node_with_a_feature(snapshot_of: Any) -> None:
    """`one` owns two nodes, and the other one is not bound: it cannot be bound to a node with the feature."""
    low = running(snapshot_of, "low", 0, GPUS, attained=80.0)
    high = snapshot_of.Job("high", GPUS, submit=90.0, request=Request(features=FAST))
    plan, (own, _, _) = decided(shown(snapshot_of, [low, high], ["one", "one"], 1), 2)
    assert own.snapshot.nodes.features == (FAST, PLAIN)
    assert [(each.job, each.beneficiary) for each in plan.preemptions] == [("low", "high")]


def test_no_more_virtual_nodes_have_a_feature_than_free_nodes_do(snapshot_of: Any) -> None:
    """Of the two nodes with the feature one has a job of `two`."""
    jobs = [running(snapshot_of, "held", 0, 1), snapshot_of.Job("waits", 1, submit=90.0)]
    _, (one, two, _) = decided(shown(snapshot_of, jobs, ["two", "one"], 2), 3)
    assert one.snapshot.nodes.features == (PLAIN, PLAIN, FAST)
    assert two.snapshot.nodes.features == (FAST, PLAIN, FAST)
