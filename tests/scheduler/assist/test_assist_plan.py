"""The laws of mode assist: which running jobs are preempted for the job that Slurm ranks first."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import any_jobs, any_nodes, build, many
from tiresias.scheduler.assist.assist_plan import assist
from tiresias.scheduler.assist.preemption_gain import LEAST_RUN_RATIO, RunEstimates
from tiresias.scheduler.assist.slurm_queue import SlurmHead, SlurmQueue
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.protection import is_protected
from tiresias.scheduler.model import Effect, JobState, Plan, Quota, Snapshot, Style
from tiresias.scheduler.place.free_capacity import Holdings, free
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.reasons import reason

CONFIG = PolicyConfig(name="las", min_run=60.0, min_run_cost_factor=0.0, preemption_cost=30.0)
configs = st.builds(
    PolicyConfig,
    min_run=st.sampled_from([0.0, 60.0]),
    min_run_cost_factor=st.sampled_from([0.0, 2.0]),
    preemption_cost=st.sampled_from([0.0, 60.0]),
)


def plan_of(snapshot: Snapshot, config: PolicyConfig = CONFIG, is_served: bool = False, mean_run: float = 0.0) -> Plan:
    """Return the plan where the first waiting job in the snapshot is the first in Slurm's order."""
    waiting = np.flatnonzero(snapshot.jobs.state == JobState.WAITING)
    order = np.array(sorted(range(len(snapshot.jobs)), key=lambda row: row in waiting), np.int64)
    heads = (SlurmHead(int(waiting[0]), waiting, config, is_served),) if len(waiting) else ()
    return assist(snapshot, SlurmQueue(order, heads, mean_run=mean_run), config)


def fits(snapshot: Snapshot, row: int, released: list[int]) -> bool:
    """Return whether the waiting job fits once these jobs, and those that are being preempted, have released their GPUs."""
    placer, releasing = Placer(snapshot), np.flatnonzero(snapshot.jobs.state == JobState.RELEASING).tolist()
    there = free(snapshot.nodes) + Holdings(snapshot).on_nodes(np.array([*releasing, *released], np.int64))
    kind = placer.kind(snapshot.jobs.request[row])
    return placer.place(kind, int(snapshot.jobs.gpus[row]), placer.space(there)) is not None


@many
@given(any_jobs, any_nodes, configs, st.sampled_from([0.0, 500.0]))
def test_the_laws(snapshot_of: Any, of_jobs: Any, of_nodes: Any, config: PolicyConfig, mean_run: float) -> None:
    snapshot = build(snapshot_of, of_jobs, of_nodes)
    jobs, plan = snapshot.jobs, plan_of(snapshot, config, mean_run=mean_run)
    victims = np.flatnonzero(plan.effect == Effect.PREEMPT).tolist()
    assert not (*plan.starts, *plan.reserved, *plan.resizes)
    assert [jobs.id[row] for row in victims] == sorted((one.job for one in plan.preemptions), key=int)
    assert all(reason(plan, snapshot, row) for row in range(len(jobs)))
    if not victims:
        return
    head = next(row for row in range(len(jobs)) if jobs.state[row] == JobState.WAITING)
    assert {one.beneficiary for one in plan.preemptions} == {jobs.id[head]}
    assert jobs.eligible[head], "Slurm would not start it"
    assert not fits(snapshot, head, []), "it could start without a preemption"
    assert fits(snapshot, head, victims), "it could not start with it"
    for row in victims:
        assert not fits(snapshot, head, [other for other in victims if other != row]), "more than needed"
    assert jobs.movable[victims].all(), "a job that cannot checkpoint"
    assert (jobs.state[victims] == JobState.RUNNING).all()
    assert not is_protected(snapshot, config)[victims].any(), "its minimum run time is not reached"
    estimates = RunEstimates(jobs, config, mean_run)
    assert (estimates.left[victims] > LEAST_RUN_RATIO * estimates.left[head] + estimates.restart[victims]).all()
    service = estimates.left * jobs.gpus
    assert (service[victims] > service[jobs.state == JobState.WAITING].mean()).all(), "it has less left than the queue"
    assert estimates.left.max() > (estimates.left[head] + estimates.restart[victims]).sum(), (
        "it costs more than it gains"
    )


def running(make: Any, name: str, ran: float, gpus: int = 4, **more: Any) -> Any:
    start = 100_000.0 - ran
    return make.Job(name, gpus, JobState.RUNNING, ran=ran, submit=start, first_start=start, last_start=start, **more)


def cluster(make: Any, *jobs: Any, nodes: int = 1, gpus: int = 4) -> Snapshot:
    snapshot: Snapshot = make(jobs, [make.Node(gpus=gpus) for _ in range(nodes)], time=100_000.0)
    return snapshot


def preempted(plan: Plan) -> set[str]:
    return {one.job for one in plan.preemptions}


def test_the_job_with_the_most_service_is_preempted(snapshot_of: Any) -> None:
    jobs = [running(snapshot_of, "old", 9000.0), running(snapshot_of, "recent", 500.0)]
    plan = plan_of(cluster(snapshot_of, *jobs, snapshot_of.Job("head", 4, submit=99_990.0), nodes=2))
    assert preempted(plan) == {"old"}
    assert plan.why[0].seconds > plan.why[0].amount > 0


def test_one_large_job_rather_than_several_small_ones(snapshot_of: Any) -> None:
    small = [running(snapshot_of, f"small{row}", 900.0, 1) for row in range(4)]
    jobs = [*small, running(snapshot_of, "large", 800.0), snapshot_of.Job("head", 4, submit=99_000.0)]
    assert preempted(plan_of(cluster(snapshot_of, *jobs, nodes=2))) == {"large"}


def styled(snapshot: Snapshot, style: int) -> Snapshot:
    return replace(snapshot, jobs=replace(snapshot.jobs, style=np.full(len(snapshot.jobs), style)))


def test_a_job_to_be_consolidated_gets_one_node(snapshot_of: Any) -> None:
    """The runs with the most service are on two nodes; two others, on the third node, cost the same."""
    ages = (9000.0, 500.0), (8000.0, 510.0), (3000.0, 2900.0)
    jobs = [
        running(snapshot_of, f"n{node}-{place}", ran, 2)
        for node, two in enumerate(ages)
        for place, ran in enumerate(two)
    ]
    snapshot = cluster(snapshot_of, *jobs, snapshot_of.Job("head", 4, submit=99_000.0), nodes=3)
    assert preempted(plan_of(styled(snapshot, Style.SPREAD))) == {"n0-0", "n1-0"}
    assert preempted(plan_of(styled(snapshot, Style.CONSOLIDATE))) == {"n2-0", "n2-1"}


def test_the_plan_names_the_nodes_of_a_job_to_be_consolidated(snapshot_of: Any) -> None:
    """From the preemption on until it starts; not where it may run anywhere, fits without a release or has nodes of its owner's."""
    jobs = [running(snapshot_of, f"n{node}-{place}", 5000.0, 2) for node in range(2) for place in range(2)]
    head = snapshot_of.Job("head", 4, submit=99_000.0)
    before = styled(cluster(snapshot_of, *jobs, head, nodes=2), Style.CONSOLIDATE)
    plan = plan_of(before)
    (start,) = plan.reserved
    assert start.job == "head"
    assert {each[:2] for each in preempted(plan)} == {"n" + start.nodes[0][0][-1]}
    rows = [before.jobs.id.index(each) for each in preempted(plan)]
    state = before.jobs.state.copy()
    state[rows] = JobState.RELEASING
    after = replace(before, jobs=replace(before.jobs, state=state))
    assert plan_of(after).reserved == plan.reserved
    assert not plan_of(after).preemptions
    assert not plan_of(styled(after, Style.SPREAD)).reserved
    named = tuple(replace(one, nodes=frozenset({"node0"})) for one in after.jobs.request)
    assert not plan_of(replace(after, jobs=replace(after.jobs, request=named))).reserved
    assert not plan_of(styled(cluster(snapshot_of, *jobs[:2], head, nodes=2), Style.CONSOLIDATE)).reserved


@many
@given(any_jobs, any_nodes, configs)
def test_consolidation_never_costs_more(snapshot_of: Any, of_jobs: Any, of_nodes: Any, config: PolicyConfig) -> None:
    """Jobs are preempted in the same cases, and lose no more."""
    snapshot = build(snapshot_of, of_jobs, of_nodes)
    restart = RunEstimates(snapshot.jobs, config).restart
    row_of = {name: row for row, name in enumerate(snapshot.jobs.id)}
    usual, together = (
        [row_of[one.job] for one in plan_of(styled(snapshot, style), config).preemptions]
        for style in (Style.SPREAD, Style.CONSOLIDATE)
    )
    assert bool(usual) or not together
    assert len(together) * 60.0 + restart[together].sum() <= len(usual) * 60.0 + restart[usual].sum() or not usual


def test_no_further_preemption_while_slurm_may_be_about_to_start_the_head(snapshot_of: Any) -> None:
    snapshot = cluster(snapshot_of, running(snapshot_of, "old", 90_000.0), snapshot_of.Job("head", 4, submit=50_000.0))
    assert preempted(plan_of(snapshot)) == {"old"}
    assert not plan_of(snapshot, is_served=True).preemptions


def test_a_short_wait_is_not_worth_a_preemption(snapshot_of: Any) -> None:
    """The recent run is expected to end after 70 s more; a preemption costs the old one 30 s and the run of the head, 60 s."""
    recent = running(snapshot_of, "recent", 70.0, movable=False)
    plan = plan_of(
        cluster(
            snapshot_of, recent, running(snapshot_of, "old", 9000.0), snapshot_of.Job("head", 4, submit=1e5), nodes=2
        )
    )
    assert not preempted(plan)
    assert plan.why[2].seconds == 70.0
    assert plan.why[2].amount == 90


def test_a_job_with_less_service_left_than_the_waiting_jobs_is_not_preempted(snapshot_of: Any) -> None:
    """After its requeue it waits for all of them."""
    head = snapshot_of.Job("head", 4, submit=99_000.0)
    preempted_before = snapshot_of.Job("before", 8, ran=20_000.0, submit=0.0, preempted=99_500.0)
    jobs = [running(snapshot_of, "old", 9000.0), head]
    assert preempted(plan_of(cluster(snapshot_of, *jobs))) == {"old"}
    assert not preempted(plan_of(cluster(snapshot_of, *jobs, preempted_before)))


def test_a_new_job_is_expected_to_run_for_the_mean_of_the_completed_ones(snapshot_of: Any) -> None:
    snapshot = cluster(snapshot_of, running(snapshot_of, "old", 9000.0), snapshot_of.Job("head", 4, submit=99_000.0))
    assert preempted(plan_of(snapshot, mean_run=4000.0)) == {"old"}
    assert not preempted(plan_of(snapshot, mean_run=4500.0))


def test_jobs_that_have_run_for_about_as_long_do_not_preempt_each_other(snapshot_of: Any) -> None:
    for ran, expected in ((5000.0, {"old"}), (6000.0, set())):
        head = snapshot_of.Job("head", 4, ran=ran, submit=0.0, preempted=50_000.0)
        assert preempted(plan_of(cluster(snapshot_of, running(snapshot_of, "old", 11_000.0), head))) == expected


def test_a_job_that_is_expected_to_end_sooner_is_not_preempted(snapshot_of: Any) -> None:
    head = snapshot_of.Job("head", 4, ran=5000.0, submit=0.0, preempted=50_000.0)
    assert not preempted(plan_of(cluster(snapshot_of, running(snapshot_of, "recent", 4000.0), head)))


@pytest.mark.parametrize("gpus", [4, 5])
def test_a_higher_tier_and_other_partitions_are_left_alone(snapshot_of: Any, gpus: int) -> None:
    snapshot = cluster(snapshot_of, running(snapshot_of, "old", 9000.0), snapshot_of.Job("head", gpus))
    assert preempted(plan_of(snapshot)) == ({"old"} if gpus == 4 else set())
    request = snapshot.jobs.request[0], replace(snapshot.jobs.request[1], closed=frozenset({"n0"}))
    assert not preempted(plan_of(replace(snapshot, jobs=replace(snapshot.jobs, request=request)))), (
        "n0 is of another partition"
    )
    tiers = replace(snapshot, jobs=replace(snapshot.jobs, priority_class=np.array([2, 1])))
    assert not preempted(plan_of(tiers))


def test_limits_of_slurm(snapshot_of: Any) -> None:
    snapshot = cluster(snapshot_of, running(snapshot_of, "old", 9000.0), snapshot_of.Job("head", 4))
    assert not preempted(plan_of(replace(snapshot, quotas=(Quota("QOSGrpGRES", 3.0, {1: 4.0}),))))


def test_a_claim_of_a_near_end_spares_a_job(snapshot_of: Any) -> None:
    snapshot = cluster(snapshot_of, running(snapshot_of, "old", 9000.0), snapshot_of.Job("head", 4, submit=99_999.0))
    claimed = replace(snapshot.jobs, claimed_remaining=np.array([20.0, math.nan]))
    assert preempted(plan_of(snapshot)) == {"old"}
    assert not preempted(plan_of(replace(snapshot, jobs=claimed)))
