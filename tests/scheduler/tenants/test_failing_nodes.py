"""Cells of virtual clusters on nodes where runs fail: other cells are bound first, and no guarantee is lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.tenants.shared_cluster import CONFIG, GPUS, tenants_of, with_clusters
from tiresias.scheduler.model import JobState, Plan, Snapshot
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

NODES = 4
HALF = (DeclaredTenant("one", (DeclaredCells("node", 2),)), DeclaredTenant("two", (DeclaredCells("node", 2),)))


def cluster_of(
    make: Any, jobs: Sequence[tuple[str, int | None]], failing: Collection[int], leaves: Sequence[int]
) -> Snapshot:
    """Return whole-node jobs: the virtual cluster of each, and the node on which it runs in a cell; None: it waits."""
    rows = [
        make.Job(str(at), GPUS, submit=float(at))
        if node is None
        else make.Job(str(at), GPUS, JobState.RUNNING, first_start=1.0, last_start=1.0, placement=((node, GPUS),))
        for at, (_, node) in enumerate(jobs)
    ]
    nodes = [make.Node(gpus=GPUS, leaf=leaf) for leaf in leaves]
    snapshot = with_clusters(make(rows, nodes), [name for name, _ in jobs])
    avoided = np.array([at in failing for at in range(len(leaves))])
    cells = ("node",) * len(snapshot.allocations.job)
    allocations = replace(snapshot.allocations, owned_cell=cells)
    return replace(snapshot, nodes=replace(snapshot.nodes, last_resort=avoided), allocations=allocations)


def decided(declared: Sequence[DeclaredTenant], *snapshots: Snapshot) -> Plan:
    """Return the last plan of one rule that sees several snapshots."""
    names = [*(tenant.name for tenant in declared), OUTSIDE]
    rule, tenants = VirtualClusterRule(tuple(declared)), tenants_of(dict.fromkeys(names, replace(CONFIG, name="fifo")))
    plans = [rule.decide(snapshot, tenants)[0] for snapshot in snapshots]
    return plans[-1]


def nodes_of(plan: Plan) -> set[str]:
    return {node for start in plan.starts for node, _ in start.nodes}


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sets(st.integers(0, NODES - 1)),
    st.sets(st.integers(0, NODES - 1)),
    st.lists(st.sampled_from(["one", "two"]), max_size=NODES),
)
def test_failing_nodes_are_used_last_and_break_no_guarantee(
    snapshot_of: Any, failing: set[int], before: set[int], jobs: list[str]
) -> None:
    jobs = [name for at, name in enumerate(jobs) if jobs[:at].count(name) < 2]  # what each owns
    waiting, leaves = [(name, None) for name in jobs], [0] * NODES
    snapshots = [cluster_of(snapshot_of, waiting, each, leaves) for each in (before, failing)]
    plan = decided(HALF, *snapshots)
    assert {start.job for start in plan.starts} == set(map(str, range(len(jobs)))), "all are guaranteed"
    assert all(start.owned_cells for start in plan.starts)
    healthy = {f"n{at}" for at in range(NODES) if at not in failing}
    used = nodes_of(plan)
    assert len(used & healthy) == min(len(healthy), len(used))
    assert nodes_of(decided(HALF, snapshots[1])) == used, "a new controller decides the same"


@pytest.mark.parametrize("failing", [{1}, {2}, {3}])
def test_a_restart_avoids_the_failing_node_while_another_cell_is_free(snapshot_of: Any, failing: set[int]) -> None:
    jobs = [("one", 0), ("one", None), ("two", None)]
    plan = decided(HALF, cluster_of(snapshot_of, jobs, failing, [0] * NODES))
    assert nodes_of(plan) == {"n1", "n2", "n3"} - {f"n{at}" for at in failing}


def test_a_job_that_runs_on_a_failing_node_keeps_its_cell(snapshot_of: Any) -> None:
    jobs: list[tuple[str, int | None]] = [("one", 0), ("one", 1), ("two", None), ("two", None)]
    plan = decided(HALF, cluster_of(snapshot_of, jobs, {0, 1}, [0] * NODES))
    assert (nodes_of(plan), plan.preemptions, plan.rebindings) == ({"n2", "n3"}, (), ())


def test_a_cell_that_is_bound_elsewhere_is_chosen_before_a_failing_node(snapshot_of: Any) -> None:
    """The virtual cluster has two racks. In the one that it uses, the free node fails; the other rack is free."""
    declared = [DeclaredTenant("one", (DeclaredCells("leaf", 2),))]
    jobs: list[tuple[str, int | None]] = [("one", 0), ("one", None)]
    snapshot = cluster_of(snapshot_of, jobs, {1}, [0, 0, 1, 1])
    held = replace(snapshot.allocations, owned_cell=("leaf",))
    assert nodes_of(decided(declared, replace(snapshot, allocations=held))) <= {"n2", "n3"}
    healthy = cluster_of(snapshot_of, jobs, (), [0, 0, 1, 1])
    assert nodes_of(decided(declared, replace(healthy, allocations=held))) == {"n1"}, "packed where none fails"
