"""A walk that is known to fail is not made: the plans are those of all walks."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import any_nodes, build, jobs, many, policies, styles
from tests.scheduler.test_kept_plans import shown
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import JobState, Plan, Request, Snapshot
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.unplaceable_requests import UnplaceableRequests

INFINIBAND = Request(features=frozenset({"ib"}))
LAS = PolicyConfig("las", min_run=0.0, min_run_cost_factor=0.0)
scarce = st.sampled_from(
    [
        *[Request(), INFINIBAND, Request(gpu_type="a100"), Request(cpus_per_gpu=8.0), Request(gpus_per_node=1)],
        *[Request(max_nodes=1), Request(memory_per_node=150.0), Request(excluded=frozenset({"n1"}))],
    ]
)
small = st.sampled_from([1, 1, 1, 1, 2, 4]).map(lambda gpus: {"gpus": gpus})
small_jobs = st.builds(operator.or_, st.builds(operator.or_, jobs, styles), small)
alike_jobs = st.lists(st.tuples(small_jobs, scarce), min_size=6, max_size=24)


def in_all_walks(snapshot: Snapshot, config: PolicyConfig) -> Plan:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(UnplaceableRequests, "among", lambda *_: [])
        return decide(snapshot, config)


@many
@given(alike_jobs, any_nodes, policies)
def test_the_plan_is_that_of_all_walks(snapshot_of: Any, of_jobs: Any, nodes: Any, config: PolicyConfig) -> None:
    snapshot = build(snapshot_of, of_jobs, nodes)
    assert shown(decide(snapshot, config)) == shown(in_all_walks(snapshot, config))


def test_jobs_with_a_request_that_found_no_node_are_skipped_without_a_search(
    snapshot_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {"state": JobState.RUNNING, "first_start": 0.0, "last_start": 0.0, "ran": 10.0}
    old = snapshot_of.Job("old", attained=9e9, **runs)
    need = [snapshot_of.Job(f"ib{at}", submit=at, request=INFINIBAND) for at in range(30)]
    blocked = snapshot_of.Job("blocked", 4, movable=False, placement=((0, 4),), **runs)
    nodes = [snapshot_of.Node(features=frozenset({"ib"})), snapshot_of.Node(gpus=2)]
    snapshot, searches = snapshot_of([blocked, old, *need, snapshot_of.Job("last", submit=99.0)], nodes), list[int]()
    place = Placer.place

    def counted(*of: Any) -> Placement | None:
        searches.append(1)
        return place(*of)

    monkeypatch.setattr(Placer, "place", counted)
    plan = decide(snapshot, LAS)
    assert [start.job for start in plan.starts] == ["last"]
    assert len(searches) < 10
    found = len(searches)
    assert shown(in_all_walks(snapshot, LAS)) == shown(plan)
    assert len(searches) - found > 40
