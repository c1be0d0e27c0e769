"""Laws of the admit stage: what Slurm would refuse causes no preemption, and keeps no GPU from other jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.admit.quotas import QuotaUse, blocks_beside_free
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide, reason
from tiresias.scheduler.evict.by_rank import walk
from tiresias.scheduler.forecast.forecast_words import forecast_in_words
from tiresias.scheduler.forecast.start_time_bound import latest_start
from tiresias.scheduler.model import Effect, Jobs, JobState, Plan, Quota, Request, Snapshot
from tiresias.scheduler.rank.policies import POLICIES

LAS = PolicyConfig(name="las", thresholds=(3200.0,), min_run=0.0, min_run_cost_factor=0.0)
OLD = {"state": JobState.RUNNING, "attained": 9000.0, "ran": 900.0, "first_start": 100.0, "last_start": 100.0}

jobs = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([1, 1, 2, 4, 4, 8]),
        "state": st.sampled_from(
            [JobState.WAITING, JobState.WAITING, JobState.RUNNING, JobState.RELEASING, JobState.STARTING]
        ),
        "attained": st.sampled_from([0.0, 100.0, 5000.0, 20000.0]),
        "ran": st.sampled_from([0.0, 400.0]),
        "submit": st.integers(0, 9).map(float),
        "first_start": st.just(10.0),
        "last_start": st.sampled_from([10.0, 700.0]),
        "movable": st.sampled_from([True, True, True, False]),
        "free_only": st.sampled_from([False, False, True]),
    }
)
limits = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 2.0, 5.0, 9.0]), st.booleans(), st.sets(st.integers(0, 13), min_size=1, max_size=10)
    ),
    max_size=4,
)
policies = st.builds(PolicyConfig, name=st.sampled_from(sorted(POLICIES)), min_run=st.just(0.0))
many = settings(max_examples=examples(200), deadline=None)


def build(snapshot_of: Any, some: Iterable[dict[str, Any]], limits: Iterable[tuple[float, bool, set[int]]]) -> Snapshot:
    """limits: left, whether GPUs are counted or else jobs, and the rows."""
    nodes = [snapshot_of.Node(gpus=4) for _ in range(4)]
    made = snapshot_of([snapshot_of.Job(id=str(row), **job) for row, job in enumerate(some)], nodes)
    waits = np.flatnonzero(made.jobs.state == JobState.WAITING).tolist()
    quotas = [
        Quota(f"QOSGrp{at}", left, {row: float(made.jobs.gpus[row]) if gpus else 1.0 for row in rows & set(waits)})
        for at, (left, gpus, rows) in enumerate(limits)
    ]
    limited: Snapshot = replace(made, quotas=tuple(quotas))
    return limited


def beneficiaries(plan: Plan) -> set[str]:
    return {one.beneficiary for one in plan.preemptions}


@many
@given(st.lists(jobs, max_size=14), limits, policies)
def test_no_quota_is_exceeded(snapshot_of: Any, some: Any, limits: Any, config: Any) -> None:
    snapshot = build(snapshot_of, some, limits)
    plan = decide(snapshot, config)
    placed = {snapshot.jobs.id.index(start.job) for start in (*plan.starts, *plan.reserved)}
    for quota in snapshot.quotas:
        assert sum(amount for row, amount in quota.amounts.items() if row in placed) <= quota.left + 1e-6


@many
@given(st.lists(jobs, max_size=14), limits, policies.filter(lambda config: not POLICIES[config.name].spares))
def test_a_job_that_a_quota_keeps_waiting_changes_nothing_for_others(
    snapshot_of: Any, some: Any, limits: Any, config: Any
) -> None:
    """The plan is that of a cluster without these jobs. Where preemptions are weighed, a job may be selected first, found not worth
    a preemption, and then find its quota taken by a job that is."""
    snapshot = build(snapshot_of, some, limits)
    plan, of = decide(snapshot, config), snapshot.jobs
    held_back = [row for row in range(len(of)) if reason(plan, snapshot, row).startswith("Blocked by Slurm: QOSGrp")]
    eligible = of.eligible.copy()
    eligible[held_back] = False
    without = decide(replace(snapshot, jobs=replace(of, eligible=eligible)), config)
    assert (plan.starts, plan.preemptions, plan.reserved) == (without.starts, without.preemptions, without.reserved)


@many
@given(st.lists(jobs, max_size=14), limits, policies)
def test_a_job_that_slurm_refused_takes_free_gpus_only(snapshot_of: Any, some: Any, limits: Any, config: Any) -> None:
    snapshot = build(snapshot_of, some, limits)
    plan, of = decide(snapshot, config), snapshot.jobs
    assert of.free_only is not None
    refused = {of.id[row] for row in range(len(of)) if of.free_only[row] and of.state[row] == JobState.WAITING}
    assert not refused & beneficiaries(plan)
    assert not refused & {start.job for start in plan.reserved}
    assert not (plan.preemptions and refused & {start.job for start in plan.starts})


@many
@given(st.lists(st.sampled_from([1, 2, 4, 8]), max_size=20), st.integers(0, 30), st.booleans())
def test_without_quotas_that_bind_the_walk_is_the_papers(gpus: Any, capacity: Any, blocks: Any) -> None:
    cost, rows = np.array(gpus, np.int64), np.arange(len(gpus))
    ample = QuotaUse([Quota("QOSGrpGRES", 1000.0, dict.fromkeys(range(len(gpus)), 1.0))])
    found = ample.walk(rows, cost, np.ones(len(gpus), bool), capacity, blocks)
    assert found.tolist() == walk(cost, capacity, blocks).tolist()


def of_rows(snapshot: Snapshot, **columns: Any) -> Jobs:
    return replace(snapshot.jobs, **columns)


def test_a_throttled_array_preempts_for_one_task_at_a_time(snapshot_of: Any) -> None:
    """Sixteen tasks of one GPU, one at once, before four old jobs that fill the cluster."""
    old = [snapshot_of.Job(id=f"old{node}", gpus=4, placement=((node, 4),), **OLD) for node in range(4)]
    tasks = [snapshot_of.Job(id=f"9_{task}") for task in range(16)]
    whole = snapshot_of([*old, *tasks], [snapshot_of.Node() for _ in range(4)])
    throttle = Quota("JobArrayTaskLimit", 1.0, dict.fromkeys(range(4, 20), 1.0))
    plan = decide(replace(whole, quotas=(throttle,)), LAS)
    assert [(one.job, one.beneficiary) for one in plan.preemptions] == [("old3", "9_0")]
    assert len(decide(whole, LAS).preemptions) == 4
    assert reason(plan, whole, 5) == "Blocked by Slurm: JobArrayTaskLimit"
    exhausted = replace(whole, quotas=(replace(throttle, left=0.0),))
    assert not decide(exhausted, LAS).preemptions
    assert forecast_in_words(latest_start(exhausted, LAS, 5).why) == "a limit of Slurm's: JobArrayTaskLimit"


@pytest.mark.parametrize("name", ["fifo", "best_effort", "las", "adaptive"])
def test_a_quota_leaves_its_gpus_to_the_next_jobs(snapshot_of: Any, name: Any) -> None:
    """Under strict FIFO too: Slurm goes on to the next job there."""
    some = [snapshot_of.Job(id=str(number), gpus=4, submit=float(number)) for number in range(6)]
    snapshot = snapshot_of(some, [snapshot_of.Node() for _ in range(4)])
    limited = replace(snapshot, quotas=(Quota("QOSGrpGRES", 4.0, dict.fromkeys(range(3), 4.0)),))
    plan = decide(limited, replace(LAS, name=name))
    assert [start.job for start in plan.starts] == ["0", "3", "4", "5"]


def test_a_job_that_fits_the_quota_starts_where_a_larger_one_does_not(snapshot_of: Any) -> None:
    some = [snapshot_of.Job(id="large", gpus=8), snapshot_of.Job(id="small", gpus=1, submit=1.0)]
    snapshot = snapshot_of(some, [snapshot_of.Node() for _ in range(4)])
    plan = decide(replace(snapshot, quotas=(Quota("AssocGrpGRES", 2.0, {0: 8.0, 1: 1.0}),)), LAS)
    assert [start.job for start in plan.starts] == ["small"]


def test_a_job_without_nodes_takes_nothing_of_its_quota(snapshot_of: Any) -> None:
    """One that waits for a node of its own returns what it would have taken to the next one."""
    apart = Request(features=frozenset({"ib"}))
    some = [snapshot_of.Job(id="apart", gpus=4, request=apart), snapshot_of.Job(id="plain", gpus=4, submit=1.0)]
    nodes = [snapshot_of.Node(features=frozenset({"ib"}), usable=False), snapshot_of.Node()]
    quota = Quota("QOSGrpGRES", 4.0, {0: 4.0, 1: 4.0})
    plan = decide(replace(snapshot_of(some, nodes), quotas=(quota,)), LAS)
    assert [start.job for start in plan.starts] == ["plain"]


def test_nodes_that_a_reservation_closes_to_a_job_are_not_used_and_not_reported_as_impossible(snapshot_of: Any) -> None:
    """For the first job every node is closed: nothing is preempted for it."""
    old = [snapshot_of.Job(id=f"old{node}", gpus=4, placement=((node, 4),), **OLD) for node in range(2)]
    closed = Request(closed=frozenset({"n0", "n1"}))
    half = Request(closed=frozenset({"n1"}))
    some = [*old, snapshot_of.Job(id="late", gpus=4, request=closed), snapshot_of.Job(id="short", gpus=4, request=half)]
    snapshot = snapshot_of(some, [snapshot_of.Node() for _ in range(2)])
    plan = decide(snapshot, LAS)
    assert [(one.job, one.beneficiary) for one in plan.preemptions] == [("old0", "short")]
    assert "can never run" not in reason(plan, snapshot, 2)


def test_the_reason_is_in_slurms_words(snapshot_of: Any) -> None:
    words = ["PartitionTimeLimit", "Licenses"]
    some = [
        snapshot_of.Job(id="first", eligible=False, obstacle=words[0]),
        snapshot_of.Job(id="second", gpus=4, free_only=True, obstacle=words[1]),
        snapshot_of.Job(id="old", gpus=4, placement=((0, 4),), **OLD),
        snapshot_of.Job(id="promised", gpus=4, state=JobState.STARTING, placement=((1, 4),)),
    ]
    snapshot = snapshot_of(some, [snapshot_of.Node() for _ in range(2)])
    plan = decide(snapshot, LAS)
    assert not plan.preemptions
    assert plan.effect.tolist() == [Effect.WAIT, Effect.WAIT, Effect.KEEP, Effect.KEEP]
    reasons = [reason(plan, snapshot, row) for row in range(4)]
    assert reasons[0] == "Blocked by Slurm: PartitionTimeLimit"
    assert reasons[1] == "Blocked by Slurm: Licenses; the start is retried on free GPUs only"
    assert reasons[3] == "starting: released to Slurm, which has not started it yet"
    assert forecast_in_words(latest_start(snapshot, LAS, 0).why) == reasons[0]


@pytest.mark.parametrize(("gpus", "held", "blocks"), [(4, 0, True), (5, 0, False), (4, 1, False)])
@pytest.mark.parametrize("kind", ["quota", "obstacle", "reservation"])
def test_a_rule_that_keeps_a_job_waiting_beside_free_gpus(
    snapshot_of: Any, kind: Any, gpus: Any, held: Any, blocks: Any
) -> None:
    """One node of four GPUs, of which a running job has `held`."""
    some = [snapshot_of.Job(id="waits", gpus=gpus)]
    some += [snapshot_of.Job(id="runs", gpus=held, placement=((0, held),), **OLD)] if held else []
    snapshot = snapshot_of(some, [snapshot_of.Node(gpus=4)])
    plan = decide(snapshot, LAS)
    assert not blocks_beside_free(snapshot, plan), "no rule is about it"
    if kind == "quota":
        ruled = replace(snapshot, quotas=(Quota("AssocGrpGRES", 0.0, {0: float(gpus)}),))
    elif kind == "reservation":
        requests = (replace(snapshot.jobs.request[0], closed=frozenset({"gpu01"})), *snapshot.jobs.request[1:])
        ruled = replace(snapshot, jobs=replace(snapshot.jobs, request=requests))
    else:
        ruled = replace(snapshot, jobs=replace(snapshot.jobs, obstacle=("Licenses", *("",) * (len(some) - 1))))
    assert blocks_beside_free(ruled, replace(plan, actions=plan.preemptions)) == blocks


def test_what_the_plan_starts_is_not_blocked(snapshot_of: Any) -> None:
    some = [snapshot_of.Job(id="first", gpus=2), snapshot_of.Job(id="second", gpus=2, submit=1.0)]
    snapshot = snapshot_of(some, [snapshot_of.Node(gpus=4)])
    both = replace(snapshot, quotas=(Quota("QOSMaxJobsPerUserLimit", 2.0, {0: 1.0, 1: 1.0}),))
    one = replace(snapshot, quotas=(Quota("QOSMaxJobsPerUserLimit", 1.0, {0: 1.0, 1: 1.0}),))
    assert not blocks_beside_free(both, decide(both, LAS))
    assert blocks_beside_free(one, decide(one, LAS))
