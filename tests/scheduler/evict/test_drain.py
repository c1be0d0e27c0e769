"""A job that starves gets its GPUs although small jobs come and go, and what is kept free for it is bounded."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide, reason
from tiresias.scheduler.model import JobState, Request, Snapshot
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

NOW = 10_000.0
LIMIT, DRAIN = 1000.0, 300.0
LAS = PolicyConfig(
    "las", thresholds=(400.0,), starve_limit=LIMIT, drain_limit=DRAIN, min_run=60.0, min_run_cost_factor=0.0
)


def cluster(snapshot_of: Any, since: float = 10.0, gpus: int = 8, nodes: int = 2, **runs: Any) -> Snapshot:
    """Jobs of two GPUs that started just now on all GPUs but one of each node; a large job was promoted `since` seconds ago; a
    small one has just come."""
    small = {"attained": 10.0, "ran": 5.0, "submit": NOW - 20.0, "last_start": NOW - 5.0, **runs}
    jobs = [snapshot_of.Job(f"s{at}", 3, JobState.RUNNING, placement=((at, 3),), **small) for at in range(nodes)]
    jobs.append(snapshot_of.Job("large", gpus, waited=since, submit=NOW - 5000.0))
    jobs.append(snapshot_of.Job("new", 1, waited=1.0, submit=NOW - 1.0))
    made: Snapshot = snapshot_of(jobs, [snapshot_of.Node(4)] * nodes, NOW)
    return made


@pytest.mark.parametrize(
    ("since", "runs", "kept"),
    [
        (10.0, {}, True),  # minimum run time not reached
        (10.0, {"movable": False}, True),  # cannot be preempted, has not run for long
        (10.0, {"movable": False, "last_start": NOW - DRAIN}, False),  # will run on
        (DRAIN, {}, False),  # long enough
        (LIMIT, {}, True),  # once more
    ],
)
def test_gpus_are_kept_free_for_a_starving_job_that_does_not_fit(
    snapshot_of: Any, since: float, runs: dict[str, Any], kept: bool
) -> None:
    snapshot = cluster(snapshot_of, since, **runs)
    plan = decide(snapshot, LAS)
    assert [one.job for one in plan.starts] == ([] if kept else ["new"])
    assert not plan.preemptions
    assert ("kept free for it" in reason(plan, snapshot, 2)) == kept
    assert next_change(snapshot, LAS) > NOW


def test_it_is_kept_free_on_no_more_nodes_than_it_needs(snapshot_of: Any) -> None:
    packed = cluster(snapshot_of, gpus=4, nodes=6)
    request = replace(packed.jobs, request=(*packed.jobs.request[:6], Request(max_nodes=1), packed.jobs.request[7]))
    plan = decide(replace(packed, jobs=request), LAS)
    assert [one.job for one in plan.starts] == ["new"]


def test_the_promoted_job_preempts_running_jobs_of_the_first_queue(snapshot_of: Any) -> None:
    plan = decide(cluster(snapshot_of, last_start=NOW - 100.0), LAS)
    assert {(one.job, one.beneficiary) for one in plan.preemptions} == {("s0", "large"), ("s1", "large")}
    before = decide(cluster(snapshot_of, last_start=NOW - 100.0), replace(LAS, starve_limit=math.inf))
    assert not before.preemptions


def test_after_its_start_it_is_not_preempted_for_jobs_that_come(snapshot_of: Any) -> None:
    runs = snapshot_of.Job("large", 8, JobState.RUNNING, 240.0, 30.0, submit=0.0, last_start=NOW - 90.0, waited=20.0)
    small = [snapshot_of.Job(str(at), 1, submit=NOW - at, waited=float(at)) for at in range(4)]
    plan = decide(snapshot_of([runs, *small], [snapshot_of.Node(4)] * 2, NOW), LAS)
    assert not plan.preemptions


# -- a stream of small jobs ---------------------------------------------------------------------------------------------

smalls = st.lists(st.tuples(st.sampled_from([1, 1, 2, 3]), st.sampled_from([5.0, 15.0, 30.0])), min_size=6, max_size=12)


@settings(max_examples=6, deadline=None)
@given(smalls, st.sampled_from(["las", "gittins", "adaptive"]), st.sampled_from([0, 1]), st.booleans())
def test_a_large_job_starts_soon_after_the_limit_under_any_stream(
    kinds: list[tuple[int, float]], name: str, preemptions: int, by_node: bool
) -> None:
    """The stream asks for twice what the cluster has, for longer than the bound. preemptions: as max_preemptions, after which
    the small jobs run to their end."""
    config = replace(
        PolicyConfig(), name=name, starve_limit=100.0, starve_factor=math.inf, drain_limit=60.0, min_run=10.0,
        min_run_cost_factor=0.0, preemption_cost=5.0, max_preemptions=preemptions, thresholds=(130.0,),
    )  # fmt: skip
    bound = 1.0 + config.starve_limit + max(config.min_run + 2.0, max(seconds for _, seconds in kinds)) + 10.0
    assert start_of_a_large_job(kinds, 200.0, config, by_node) <= bound


@pytest.mark.parametrize("by_node", [False, True])
def test_under_adaptive_its_wait_is_bounded_by_some_more_times_of_the_limit(by_node: bool) -> None:
    """By the default factor. A completion of the large job is expected to cost less than 2^5 times that of a new one."""
    config = replace(PolicyConfig(), starve_limit=40.0, drain_limit=20.0, min_run=10.0, min_run_cost_factor=0.0)
    kinds = [(1, 5.0), (2, 10.0)]
    assert start_of_a_large_job(kinds, 300.0, config, by_node) <= 1.0 + 5.0 * config.starve_limit + 12.0
    assert start_of_a_large_job(kinds, 300.0, replace(config, starve_limit=math.inf), by_node) > 300.0


def start_of_a_large_job(kinds: list[tuple[int, float]], seconds: float, config: PolicyConfig, by_node: bool) -> float:
    """Return the start of a job of all GPUs while small ones ask for twice what the cluster has, for so many seconds."""
    work = sum(gpus * duration for gpus, duration in kinds) / len(kinds)
    pace = work / 6.0 / 2.0
    stream = [(5.0 + at * pace, *kinds[at % len(kinds)]) for at in range(round(seconds / pace))]
    rows = [(0.0, 3, 20.0), (0.0, 3, 20.0), (1.0, 6, 20.0), *stream]
    trace = Trace.of(TraceJob(str(number), *row) for number, row in enumerate(rows))
    large = trace.job_id.index("2")
    rules = Rules(POLICIES[config.name], config, Cost(resume=2.0), by_node=by_node)
    return float(simulate(trace, ClusterSize(2, 3), rules).start[large])
