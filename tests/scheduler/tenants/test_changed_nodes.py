"""Nodes that change or disappear while jobs of virtual clusters run on them: no decision fails, and no GPU is used twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.tenants.shared_cluster import DECLARED, Drawn, cluster_of, drawn_jobs, tenants_of
from tiresias.errors import UsageError
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.pools import rows_of
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

CELLS = st.lists(st.sampled_from(["", "node", "leaf", "leaf#2"]), min_size=20, max_size=20)


def in_cells(snapshot: Snapshot, cells: Sequence[str]) -> Snapshot:
    """Return the snapshot with a type of cell for each allocation, whether its virtual cluster owns such a cell or not."""
    held = snapshot.allocations
    return replace(snapshot, allocations=replace(held, owned_cell=tuple(cells[: len(held.job)])))


def without_node(snapshot: Snapshot, gone: int) -> Snapshot:
    """Return the snapshot after a node was removed from Slurm's configuration."""
    left = np.flatnonzero(np.arange(len(snapshot.nodes)) != gone)
    held = snapshot.allocations
    kept = rows_of(held, np.flatnonzero(held.node != gone))
    kept = replace(kept, node=np.searchsorted(left, kept.node))
    return replace(snapshot, nodes=rows_of(snapshot.nodes, left), allocations=kept)


def with_gpus(snapshot: Snapshot, node: int, gpus: int) -> Snapshot:
    """Return the snapshot after a node was configured with another number of GPUs."""
    nodes, amount = snapshot.nodes, snapshot.nodes.free.amount.copy()
    amount[node, 0] += gpus - nodes.gpus[node]
    counts = nodes.gpus.copy()
    counts[node] = gpus
    topology = replace(nodes.topology, gpus=counts)
    return replace(
        snapshot, nodes=replace(nodes, gpus=counts, free=replace(nodes.free, amount=amount), topology=topology)
    )


def decided(rule: VirtualClusterRule, snapshot: Snapshot) -> None:
    """Decide, and check that no node gives more than is free or released by preempted jobs; or the cells do not fit any more."""
    try:
        plan, _ = rule.decide(snapshot, tenants_of())
    except UsageError:
        return
    free = dict(zip(snapshot.nodes.name, snapshot.nodes.free["gpus"].tolist(), strict=True))
    taken = Counter(dict.fromkeys(free, 0))
    for start in plan.starts:
        taken.update(dict(start.nodes))
    assert all(taken[node] <= max(free[node], 0) for node in free)


@given(drawn=drawn_jobs, cells=CELLS, gone=st.integers(0, 5))
def test_a_node_disappears(snapshot_of: Any, drawn: list[Drawn], cells: list[str], gone: int) -> None:
    rule, before = VirtualClusterRule(DECLARED), in_cells(cluster_of(snapshot_of, drawn), cells)
    for snapshot in (before, without_node(before, gone), before):
        decided(rule, snapshot)


@given(drawn=drawn_jobs, cells=CELLS, node=st.integers(0, 5), gpus=st.sampled_from([0, 2, 8]))
def test_a_node_changes_its_gpus(snapshot_of: Any, drawn: list[Drawn], cells: list[str], node: int, gpus: int) -> None:
    rule, before = VirtualClusterRule(DECLARED), in_cells(cluster_of(snapshot_of, drawn), cells)
    for snapshot in (before, with_gpus(before, node, gpus), before):
        decided(rule, snapshot)


@given(drawn=drawn_jobs, cells=CELLS)
def test_nodes_are_renamed(snapshot_of: Any, drawn: list[Drawn], cells: list[str]) -> None:
    rule, before = VirtualClusterRule(DECLARED), in_cells(cluster_of(snapshot_of, drawn), cells)
    names = tuple(f"new-{name}" for name in before.nodes.name)
    for snapshot in (before, replace(before, nodes=replace(before.nodes, name=names))):
        decided(rule, snapshot)


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.RELEASING])
def test_a_job_whose_virtual_cluster_is_gone_is_opportunistic(snapshot_of: Any, state: JobState) -> None:
    held = in_cells(cluster_of(snapshot_of, [Drawn("three", 4, state, 0.0, 0, False)]), ["node"])
    plan, _ = VirtualClusterRule(DECLARED).decide(held, tenants_of())
    assert not plan.starts
    assert not plan.preemptions
