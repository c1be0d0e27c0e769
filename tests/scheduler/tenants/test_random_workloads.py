"""Properties of the rule `virtual_clusters` over random clusters, virtual clusters, workloads, node failures and restarts.

Others are run by `python -m tests.scheduler.tenants.random_workloads --decisions 100000 --seed N`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.tenants.random_workloads import POLICIES, RandomWorkload, not_later_than_private, replay
from tests.scheduler.tenants.shared_cluster import CONFIG, GPUS, LEAVES, tenants_of, with_clusters
from tiresias.scheduler.model import JobState
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

seeds = st.integers(0, 2**32 - 1)
many = settings(max_examples=examples(40), deadline=None)


@pytest.mark.parametrize(("seed", "policy"), [(1095, "sf"), (531566, "las"), (4383611, "fifo")])
def test_equal_virtual_nodes_and_gpu_indices_decide_nothing(seed: int, policy: str) -> None:
    """Kept cells and new ones have jobs in other virtual nodes of one kind, and on other GPUs of a node."""
    replay(RandomWorkload(seed, faults=False), policy)


def test_a_running_job_may_get_cells_that_a_new_rule_binds_to_bad_nodes() -> None:
    replay(RandomWorkload(90286), "best_effort")


def test_a_gang_of_a_part_of_a_large_cell_takes_the_gpus_that_are_free() -> None:
    """Two jobs without cells were preempted in turn at one moment, without end, where no preemption was necessary."""
    replay(RandomWorkload(1214, faults=False), "sf")


@pytest.mark.parametrize(("seed", "policy"), [(580, "sf"), (631, "las"), (1367, "las")])
def test_no_job_loses_its_cells_to_one_that_cannot_start(seed: int, policy: str) -> None:
    """A virtual cluster counted on more healthy nodes than were left. The first two decided without end at one moment: a job
    started in cells that were kept for another one, which then took them; a running job was given a bad node in another one's
    cells."""
    replay(RandomWorkload(seed), policy)


def test_jobs_without_cells_rank_in_the_order_of_their_starts() -> None:
    """A job on the pinned node of its own virtual cluster was preempted for another one, started there again, and came before a job
    of its queue that had run all the time; so both decisions followed each other at one moment, without end."""
    replay(RandomWorkload(5150, pinned=True), "las")


@many
@given(seed=seeds, policy=st.sampled_from(POLICIES))
def test_healthy_nodes(seed: int, policy: str) -> None:
    """Each job that its virtual cluster selects gets hardware, and all that `Checks` has."""
    replay(RandomWorkload(seed, faults=False), policy)


@many
@given(seed=seeds, policy=st.sampled_from(POLICIES))
def test_failures_and_restarts(seed: int, policy: str) -> None:
    replay(RandomWorkload(seed), policy)


@settings(max_examples=examples(30), deadline=None)
@given(seed=seeds, policy=st.sampled_from(POLICIES), faults=st.booleans())
def test_pinned_cells(seed: int, policy: str, faults: bool) -> None:
    """About half of the cells are pinned: the same properties, and no job holds a cell that is pinned for another cluster."""
    replay(RandomWorkload(seed, faults=faults, pinned=True), policy)


@settings(max_examples=examples(30), deadline=None)
@given(seed=seeds, policy=st.sampled_from(POLICIES), faults=st.booleans(), pinned=st.booleans())
def test_different_nodes(seed: int, policy: str, faults: bool, pinned: bool) -> None:
    """Jobs request features, or name or exclude nodes: the same properties, and a job that is left when nothing else runs fits no
    hardware that it may use."""
    replay(RandomWorkload(seed, faults=faults, pinned=pinned, different_nodes=True), policy)


@many
@given(seed=seeds, pinned=st.booleans())
def test_no_job_starts_or_ends_later_than_in_its_private_cluster(seed: int, pinned: bool) -> None:
    not_later_than_private(RandomWorkload(seed, faults=False, whole_nodes=True, pinned=pinned))


def test_a_virtual_cluster_counts_on_no_node_that_a_larger_cell_needs(snapshot_of: Any) -> None:
    """Three racks of a node, one of them bad: with its rack, `one` can have one of its two single nodes. A job that needs three
    nodes does not take the cells of the one that runs, although it ranks before it."""
    declared = (DeclaredTenant("one", (DeclaredCells("leaf", 1), DeclaredCells("node", 2))),)
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf, usable=leaf > 0) for leaf in range(3)]
    runs = snapshot_of.Job("1", 4, JobState.RUNNING, 400.0, 100.0, first_start=1.0, last_start=1.0, placement=((1, 4),))
    waits = snapshot_of.Job("2", 12)
    snapshot = with_clusters(snapshot_of([runs, waits], nodes), ("one", "one"))
    held = replace(snapshot.allocations, owned_cell=("node",))
    tenants = tenants_of(dict.fromkeys(("one", OUTSIDE), CONFIG))
    plan, parts = VirtualClusterRule(declared).decide(replace(snapshot, allocations=held), tenants)
    assert plan.actions == ()
    assert parts[0].snapshot.nodes.usable.tolist() == [True, False, True]


def test_a_restart_with_bad_nodes_costs_no_running_job_its_cells(snapshot_of: Any) -> None:
    """Each rack has a bad node. Were unused cells bound to bad racks first, `one` would take a rack in which jobs of `two` run."""
    declared = (DeclaredTenant("one", (DeclaredCells("leaf", 1),)), DeclaredTenant("two", (DeclaredCells("leaf", 2),)))
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf, usable=at % 2 == 1) for at, leaf in enumerate(LEAVES)]
    runs = [
        snapshot_of.Job(str(at), 4, JobState.RUNNING, first_start=1.0, last_start=1.0, placement=((at, 4),))
        for at in range(4)
    ]
    snapshot = with_clusters(snapshot_of(runs, nodes), ("two",) * 4)
    held = replace(snapshot.allocations, owned_cell=("leaf",) * 4)
    fifo = dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo"))
    plan, parts = VirtualClusterRule(declared).decide(replace(snapshot, allocations=held), tenants_of(fifo))
    assert plan.actions == ()
    assert len(parts[1].snapshot.allocations.job) == 4
