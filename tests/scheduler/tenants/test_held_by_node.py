"""The index of what jobs hold on single nodes, and the order of the jobs that may be preempted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.tenants.shared_cluster import CONFIG, Drawn, cluster_of, drawn_jobs
from tiresias.scheduler.model import JobState
from tiresias.scheduler.place.free_capacity import COUNTED
from tiresias.scheduler.pool_ranks import order_among
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.tenants.held_by_node import HeldByNode


@given(drawn=drawn_jobs)
def test_what_chosen_jobs_hold_on_each_node(snapshot_of: Any, drawn: list[Drawn]) -> None:
    snapshot = cluster_of(snapshot_of, drawn)
    chosen, held = snapshot.jobs.state == JobState.RUNNING, snapshot.allocations
    index = HeldByNode(snapshot, chosen)
    for node in range(len(snapshot.nodes)):
        rows = np.flatnonzero((held.node == node) & chosen[held.job])
        expected = {snapshot.jobs.id[held.job[row]]: held.resources.amount[row, :COUNTED].tolist() for row in rows}
        assert index.on(node) == expected


@given(drawn=drawn_jobs, mask=st.lists(st.booleans(), min_size=40, max_size=40))
def test_what_chosen_jobs_hold_together(snapshot_of: Any, drawn: list[Drawn], mask: list[bool]) -> None:
    snapshot = cluster_of(snapshot_of, drawn)
    jobs = np.flatnonzero(np.resize(np.array(mask, np.bool_), len(snapshot.jobs)))[:5].tolist()
    index = HeldByNode(snapshot, np.ones(len(snapshot.jobs), np.bool_))
    names = {snapshot.jobs.id[row] for row in jobs}
    expected = dict[int, list[float]]()
    for node in range(len(snapshot.nodes)):
        held = [amount for job, amount in index.on(node).items() if job in names]
        if held:
            expected[node] = [sum(column) for column in zip(*held, strict=True)]
    assert {node: pytest.approx(amount) for node, amount in index.of(jobs).items()} == expected


@pytest.mark.parametrize("policy", ["las", "fifo", "best_effort", "adaptive"])
@given(drawn=drawn_jobs, mask=st.lists(st.booleans(), min_size=40, max_size=40))
def test_chosen_jobs_have_the_order_of_all(snapshot_of: Any, policy: str, drawn: list[Drawn], mask: list[bool]) -> None:
    snapshot = cluster_of(snapshot_of, drawn)
    chosen = np.resize(np.array(mask, np.bool_), len(snapshot.jobs))
    order = POLICIES[policy].rank(snapshot, CONFIG).order
    found = order_among(snapshot, chosen, CONFIG, POLICIES[policy])
    assert found.tolist() == order[chosen[order]].tolist()
