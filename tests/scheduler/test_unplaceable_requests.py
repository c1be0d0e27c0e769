"""A walk that is known to fail is not made: the plans are those of all walks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import build, many
from tests.scheduler.test_kept_plans import shown
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import JobState, Plan, Request, Snapshot
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.unplaceable_requests import UnplaceableRequests

INFINIBAND = Request(features=frozenset({"ib"}))
RUNS: dict[str, Any] = {"state": JobState.RUNNING, "first_start": 0.0, "last_start": 0.0, "ran": 10.0}
LAS = PolicyConfig("las", min_run=0.0, min_run_cost_factor=0.0)
PREEMPTIVE = [name for name, policy in POLICIES.items() if policy.preempts and not policy.blocks]
scarce = st.sampled_from(
    [Request(), INFINIBAND, INFINIBAND, Request(gpu_type="a100"), Request(cpus_per_gpu=8.0), Request(max_nodes=1)]
)
small_jobs = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([1, 1, 1, 1, 1, 2]),
        "attained": st.sampled_from([0.0, 0.0, 100.0, 5000.0, 20000.0]),
        "submit": st.integers(0, 9).map(float),
        "movable": st.sampled_from([True, True, False]),
        "free_only": st.sampled_from([False, False, False, True]),
    }
)
small_nodes = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([1, 2, 3]),
        "cpus": st.sampled_from([4.0, 64.0]),
        "type": st.sampled_from(["", "", "a100"]),
        "features": st.sampled_from([frozenset[str](), frozenset[str](), frozenset({"ib"})]),
        "leaf": st.integers(0, 1),
    }
)
alike_jobs = st.lists(st.tuples(small_jobs, scarce), min_size=8, max_size=24)
running = st.lists(st.tuples(small_jobs, st.just(Request())), min_size=2, max_size=8)


def in_all_walks(snapshot: Snapshot, config: PolicyConfig) -> Plan:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(UnplaceableRequests, "among", lambda *_: [])
        return decide(snapshot, config)


@many
@given(running, alike_jobs, st.lists(small_nodes, min_size=3, max_size=6), st.sampled_from(PREEMPTIVE))
def test_the_plan_is_that_of_all_walks(snapshot_of: Any, runs: Any, waits: Any, nodes: Any, name: str) -> None:
    started = [({**job, **RUNS}, request) for job, request in runs]
    snapshot, config = build(snapshot_of, [*started, *waits], nodes), replace(LAS, name=name)
    assert shown(decide(snapshot, config)) == shown(in_all_walks(snapshot, config))


def test_jobs_with_a_request_that_found_no_node_are_skipped_without_a_search(
    snapshot_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = snapshot_of.Job("old", attained=9e9, **RUNS)
    need = [snapshot_of.Job(f"ib{at}", submit=at, request=INFINIBAND) for at in range(30)]
    blocked = snapshot_of.Job("blocked", 4, movable=False, placement=((0, 4),), **RUNS)
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
