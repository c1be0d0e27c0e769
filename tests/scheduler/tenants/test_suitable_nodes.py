"""Jobs of virtual clusters that request features, or name or exclude nodes: what they find on virtual nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.scheduler.tenants.random_workloads import RandomWorkload, replay
from tests.scheduler.tenants.shared_cluster import GPUS, LEAVES, tenants_of, with_clusters
from tests.scheduler.tenants.test_jobs_beyond_cells import LAS, NOW, running
from tiresias.scheduler.model import Plan, Request, Snapshot
from tiresias.scheduler.pool_decisions import PoolDecision
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

FAST, PLAIN = frozenset({"fast"}), frozenset[str]()
BOTH = frozenset({"fast", "ssd"})


def shown(make: Any, jobs: Sequence[Any], clusters: Sequence[str], *features: frozenset[str]) -> Snapshot:
    """The jobs, those that run in cells; the first nodes have the features."""
    every = [*features, *[PLAIN] * (len(LEAVES) - len(features))]
    nodes = [make.Node(gpus=GPUS, leaf=leaf, features=own) for leaf, own in zip(LEAVES, every, strict=True)]
    found = with_clusters(make(jobs, nodes, NOW), clusters)
    return replace(found, allocations=replace(found.allocations, owned_cell=("node",) * len(found.allocations.job)))


def decided(snapshot: Snapshot, owned: int, racks_of_two: int = 0) -> tuple[Plan, tuple[PoolDecision, ...]]:
    """The decision with so many nodes for each virtual cluster, or so many racks for `two`."""
    of_two = DeclaredCells("leaf", racks_of_two) if racks_of_two else DeclaredCells("node", owned)
    rule = VirtualClusterRule(
        [DeclaredTenant("one", (DeclaredCells("node", owned),)), DeclaredTenant("two", (of_two,))]
    )
    return rule.decide(snapshot, tenants_of(LAS))


def test_a_job_preempts_a_lower_ranked_one_on_the_only_node_with_a_feature(snapshot_of: Any) -> None:
    """`one` owns two nodes, and the other one is not bound: it cannot be bound to a node with the feature."""
    low = running(snapshot_of, "low", 0, GPUS, attained=80.0)
    high = snapshot_of.Job("high", GPUS, submit=90.0, request=Request(features=FAST))
    plan, (own, _, _) = decided(shown(snapshot_of, [low, high], ["one", "one"], FAST), 2)
    assert own.snapshot.nodes.features == (FAST, PLAIN)
    assert [(each.job, each.beneficiary) for each in plan.preemptions] == [("low", "high")]


def test_no_more_virtual_nodes_have_a_feature_than_free_nodes_do(snapshot_of: Any) -> None:
    """Of the two nodes with the feature one has a job of `two`."""
    jobs = [
        running(snapshot_of, "held", 0, 1),
        snapshot_of.Job("waits", 1, submit=90.0, request=Request(features=FAST)),
    ]
    _, (one, two, _) = decided(shown(snapshot_of, jobs, ["two", "one"], FAST, FAST), 3)
    assert one.snapshot.nodes.features == (PLAIN, PLAIN, FAST)
    assert two.snapshot.nodes.features == (FAST, PLAIN, FAST)


def test_a_rack_has_no_more_nodes_with_a_feature_than_any_free_rack(snapshot_of: Any) -> None:
    """Each rack has one such node. Three nodes of them are free, and `two` owns two racks."""
    jobs = [snapshot_of.Job("waits", 1, submit=90.0, request=Request(features=FAST))]
    features = (FAST, PLAIN, FAST, PLAIN, FAST, PLAIN)
    _, (_, two, _) = decided(shown(snapshot_of, jobs, ["two"], *features), 2, racks_of_two=2)
    assert two.snapshot.nodes.features == (PLAIN, FAST, PLAIN, FAST)


def test_a_rack_that_is_in_use_in_part_is_not_counted(snapshot_of: Any) -> None:
    """The only node with the feature is free, and the other node of its rack is not: the cell of a rack cannot be bound there."""
    jobs = [
        running(snapshot_of, "held", 1, 1),
        snapshot_of.Job("waits", 1, submit=90.0, request=Request(features=FAST)),
    ]
    _, (one, two, _) = decided(shown(snapshot_of, jobs, ["one", "two"], FAST), 2, racks_of_two=2)
    assert one.snapshot.nodes.features == (PLAIN, FAST)
    assert two.snapshot.nodes.features == (PLAIN,) * 4


def test_features_that_no_two_nodes_have_together_never_fit(snapshot_of: Any) -> None:
    """Two nodes have each feature, and one has both."""
    waits = snapshot_of.Job("waits", 2 * GPUS, submit=90.0, request=Request(features=BOTH))
    snapshot = shown(snapshot_of, [waits], ["one"], FAST, frozenset({"ssd"}), BOTH)
    plan, _ = decided(snapshot, 3)
    assert plan.why[0].code == ReasonCode.NEVER_FITS
    smaller = replace(snapshot, jobs=replace(snapshot.jobs, gpus=np.array([GPUS])))
    plan, _ = decided(smaller, 3)
    assert [start.nodes for start in plan.starts] == [(("n2", GPUS),)]


def test_nodes_of_several_racks_are_found_where_the_first_free_rack_has_none(snapshot_of: Any) -> None:
    """The other racks have one such node each. The first of them is split, and then a rack that has the feature."""
    waits = snapshot_of.Job("waits", 2 * GPUS, submit=90.0, request=Request(features=FAST))
    snapshot = shown(snapshot_of, [waits], ["one"], PLAIN, PLAIN, PLAIN, FAST, FAST)
    plan, _ = decided(snapshot, 4, racks_of_two=1)
    (start,) = plan.starts
    assert start.nodes == (("n3", GPUS), ("n4", GPUS))
    assert start.owned_cells == ("node", "node")


@pytest.mark.parametrize("seed", [471, 757, 841, 1040, 1327])
def test_no_two_jobs_are_preempted_in_turn_for_hardware_that_is_in_use(seed: int) -> None:
    """A job kept free cells for which no node with its feature was left, and a job of lower rank started in the rest of them: then
    the first one preempted it, and the other one started again."""
    for policy in ("las", "sf"):
        replay(RandomWorkload(seed, faults=seed % 3 != 0, different_nodes=True), policy)


def test_nodes_that_a_job_excludes_are_not_counted(snapshot_of: Any) -> None:
    """`one` owns three nodes, of which a job excludes all free ones but two: it preempts on the node where it fits, and does not
    wait for the third one."""
    low = running(snapshot_of, "low", 0, GPUS, attained=80.0)
    request = Request(excluded=frozenset({"n1", "n2", "n3"}))
    high = snapshot_of.Job("high", 3 * GPUS, submit=90.0, request=request)
    plan, (own, _, _) = decided(shown(snapshot_of, [low, high], ["one", "one"]), 3)
    assert own.snapshot.jobs.request[1].excluded == frozenset()
    assert [(each.job, each.beneficiary) for each in plan.preemptions] == [("low", "high")]
    more = replace(request, excluded=request.excluded | {"n4"})
    _, (own, _, _) = decided(shown(snapshot_of, [low, replace(high, request=more)], ["one", "one"]), 3)
    assert len(own.snapshot.jobs.request[1].excluded) == 1


def test_a_job_that_names_more_nodes_than_its_virtual_cluster_owns_blocks_no_other_one(snapshot_of: Any) -> None:
    """It was given the only node in each decision, and its start was refused, as it did not use all nodes that it names."""
    names = frozenset({"n1", "n2", "n4"})
    jobs = [
        snapshot_of.Job("high", GPUS, submit=80.0, request=Request(nodes=names)),
        snapshot_of.Job("low", GPUS, submit=90.0),
    ]
    plan, _ = decided(shown(snapshot_of, jobs, ["one", "one"]), 1)
    assert [start.job for start in plan.starts if start.owned_cells] == ["low"]


def test_a_job_uses_all_nodes_that_it_names(snapshot_of: Any) -> None:
    names = frozenset({"n1", "n4"})
    waits = snapshot_of.Job("waits", GPUS, submit=80.0, request=Request(nodes=names))
    plan, _ = decided(shown(snapshot_of, [waits], ["one"]), 3)
    (start,) = plan.starts
    assert {name for name, _ in start.nodes} == names
    assert start.owned_cells == ("node", "node")


@pytest.mark.parametrize(("cluster", "cell"), [("one", "node"), ("two", "leaf")])
def test_a_job_uses_other_nodes_where_those_that_it_names_are_too_few(
    snapshot_of: Any, cluster: str, cell: str
) -> None:
    names = frozenset({"n2", "n5"})
    waits = snapshot_of.Job("waits", 3 * GPUS, submit=80.0, request=Request(nodes=names, features=FAST))
    snapshot = shown(snapshot_of, [waits], [cluster], *[PLAIN] * 2, *[FAST] * 4)
    plan, _ = decided(snapshot, 3 if cluster == "one" else 2, racks_of_two=0 if cluster == "one" else 2)
    (start,) = plan.starts
    assert names < {name for name, _ in start.nodes} < {"n2", "n3", "n4", "n5"}
    assert start.owned_cells == (cell,) * 3


def test_a_job_that_uses_other_nodes_too_preempts_on_those_that_it_names(snapshot_of: Any) -> None:
    """Of the three nodes of `one` one is in use, and the job of higher rank names it."""
    low = running(snapshot_of, "low", 1, GPUS, attained=80.0)
    high = snapshot_of.Job("high", 2 * GPUS, submit=90.0, request=Request(nodes=frozenset({"n1"})))
    plan, _ = decided(shown(snapshot_of, [low, high], ["one", "one"]), 3)
    assert [(each.job, each.beneficiary) for each in plan.preemptions] == [("low", "high")]
    (start,) = plan.reserved
    assert "n1" in {name for name, _ in start.nodes}


def in_conflict(make: Any, *others: Any) -> Snapshot:
    """A job that names nodes of two racks, of which `one` can have one only: `two` owns two of three."""
    job = make.Job("high", 2 * GPUS, submit=80.0, request=Request(nodes=frozenset({"n0", "n2"})))
    return shown(make, [job, *others], ["one"] * (1 + len(others)))


def test_a_job_whose_nodes_other_virtual_clusters_need_is_overtaken(snapshot_of: Any) -> None:
    snapshot = in_conflict(snapshot_of, snapshot_of.Job("last", GPUS, submit=90.0))
    plan, _ = decided(snapshot, 2, racks_of_two=2)
    assert plan.why[0] == Reason(ReasonCode.UNBOUND, "one")
    assert [(start.job, start.owned_cells) for start in plan.starts] == [("last", ("node",))]


def test_no_job_loses_its_cells_for_one_whose_nodes_other_virtual_clusters_need(snapshot_of: Any) -> None:
    snapshot = in_conflict(snapshot_of, running(snapshot_of, "low", 0, GPUS, attained=80.0))
    rule = VirtualClusterRule(
        [DeclaredTenant("one", (DeclaredCells("node", 2),)), DeclaredTenant("two", (DeclaredCells("leaf", 2),))]
    )
    for now in (NOW, NOW + 1):
        plan, _ = rule.decide(replace(snapshot, time=now), tenants_of(LAS))
        assert plan.actions == ()
        assert plan.why == {0: Reason(ReasonCode.UNBOUND, "one")}


def test_a_job_for_which_unmanaged_jobs_leave_too_few_cpus_is_overtaken(snapshot_of: Any) -> None:
    """It needs two nodes with CPUs, and one node has some left."""
    high = snapshot_of.Job("high", 2 * GPUS, submit=80.0, request=Request(cpus_per_gpu=4.0))
    others = [snapshot_of.Job(f"low-{at}", GPUS, submit=90.0 + at) for at in range(3)]
    snapshot = shown(snapshot_of, [high, *others], ["one"] * 4)
    snapshot.nodes.free.amount[1:, 1] = 2.0
    plan, _ = decided(snapshot, 3)
    assert plan.why[0] == Reason(ReasonCode.UNBOUND, "one")
    assert [start.job for start in plan.starts if start.owned_cells] == ["low-0", "low-1", "low-2"]
    snapshot.nodes.free.amount[1, 1] = 64.0
    plan, _ = decided(snapshot, 3)
    assert [start.job for start in plan.starts if start.owned_cells] == ["high", "low-0"]
