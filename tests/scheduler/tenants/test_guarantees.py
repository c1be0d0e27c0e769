"""Whether jobs that fit into free cells of their virtual cluster start in time, over several decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.scheduler.tenants.shared_cluster import (
    CONFIG,
    DECLARED,
    GPUS,
    LEAVES,
    tenants_of,
    with_clusters,
    with_sockets,
)
from tiresias.scheduler.model import JobState, Plan, Request, Snapshot, Start
from tiresias.scheduler.tenants.guarantees import Guarantee, GuaranteeTracker
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

LIMIT_S = 60.0
FIFO = tenants_of(dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo")))


class Decisions:
    """One job of `one` that owns a node, on a cluster that other jobs fill opportunistically, at several moments."""

    def __init__(self, make: Any) -> None:
        self._make, self.tracker, self._rule = make, GuaranteeTracker(), VirtualClusterRule(DECLARED)

    def decide(self, time: float, state: JobState = JobState.WAITING, **more: Any) -> Guarantee:
        """Follow the decision at that moment, and return the guarantee of `one`."""
        snapshot = self.snapshot(time, state, **more)
        plan, _ = self._rule.decide(snapshot, FIFO)
        return self.follow(snapshot, plan)

    def follow(self, snapshot: Snapshot, plan: Plan) -> Guarantee:
        self.tracker.follow(snapshot, plan, LIMIT_S)
        return self.tracker.by_cluster.get("one", Guarantee())

    def snapshot(self, time: float, state: JobState, others: int = len(LEAVES), **more: Any) -> Snapshot:
        make = self._make
        nodes = range(others - (state != JobState.WAITING))
        jobs = [make.Job(f"o{node}", GPUS, JobState.RUNNING, placement=((node, GPUS),)) for node in nodes]
        own = ((len(LEAVES) - 1, GPUS),) if state != JobState.WAITING else None
        jobs.append(make.Job("812", GPUS, state, placement=own, **more))
        shown = make(jobs, [make.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES], time)
        shown = with_clusters(shown, [*([OUTSIDE] * len(nodes)), "one"])
        cells = [""] * len(nodes) + (["node"] if own else [])
        return replace(shown, allocations=replace(shown.allocations, owned_cell=tuple(cells)))


@pytest.fixture
def decisions(snapshot_of: Any) -> Decisions:
    return Decisions(snapshot_of)


def test_a_start_within_the_limit_is_kept(decisions: Decisions) -> None:
    assert decisions.decide(1000.0) == Guarantee(waiting=1)
    assert decisions.decide(1030.0) == Guarantee(waiting=1, longest_s=30.0)
    assert decisions.decide(1040.0, JobState.STARTING) == Guarantee(waiting=1, longest_s=40.0)
    assert decisions.decide(1070.0, JobState.RUNNING, last_start=1050.0) == Guarantee(kept=1)
    assert decisions.tracker.alarms(LIMIT_S) == []


def test_a_late_start_is_broken_once_and_raises_an_alarm_while_it_waits(decisions: Decisions) -> None:
    decisions.decide(1000.0)
    late = Guarantee(waiting=1, longest_s=61.0, late=("812",), broken=1)
    assert decisions.decide(1061.0) == late
    assert decisions.tracker.alarms(LIMIT_S) == [
        "virtual cluster one: job 812 has not started within 60 s in free cells; tiresias explain 812 prints the reason"
    ]
    assert decisions.decide(1070.0).broken == 1
    assert decisions.decide(1080.0, JobState.RUNNING, last_start=1075.0) == Guarantee(broken=1)
    assert decisions.tracker.alarms(LIMIT_S) == []


def test_a_start_that_no_cycle_saw_late_is_broken_by_its_own_time(decisions: Decisions) -> None:
    decisions.decide(1000.0)
    assert decisions.decide(1100.0, JobState.RUNNING, last_start=1090.0) == Guarantee(broken=1)


def test_a_start_that_slurm_did_not_carry_out_goes_on_counting(decisions: Decisions) -> None:
    decisions.decide(1000.0)
    assert decisions.decide(1050.0, eligible=False) == Guarantee(waiting=1, longest_s=50.0)
    assert decisions.decide(1062.0, eligible=False).broken == 1
    blocked = decisions.decide(1063.0, eligible=False, obstacle="AssocGrpGRES")
    assert blocked == Guarantee(broken=1), "Slurm's own limit is no broken guarantee"


def test_a_job_that_loses_its_place_is_not_counted(decisions: Decisions) -> None:
    decisions.decide(1000.0)
    snapshot = decisions.snapshot(1030.0, JobState.WAITING)
    none = snapshot.jobs.gpus * 0
    assert decisions.follow(snapshot, Plan(none, none, none)) == Guarantee()
    assert decisions.decide(1070.0) == Guarantee(waiting=1)


@pytest.mark.parametrize("request_", [Request(features=frozenset()), Request(nodes=frozenset({"n0"}))])
def test_what_a_job_demands_of_nodes_is_not_promised(decisions: Decisions, request_: Request) -> None:
    waiting = decisions.decide(1000.0, request=request_).waiting
    assert waiting == (0 if request_.nodes else 1)


@pytest.mark.parametrize(("gpu_type", "waiting"), [("s0", 0), ("", 1)])
def test_the_type_of_a_part_of_a_node_is_not_promised(decisions: Decisions, gpu_type: str, waiting: int) -> None:
    """No node has four GPUs of type s0: the virtual cluster has four free GPUs, and no hardware for the job."""
    shown = decisions.snapshot(1000.0, JobState.WAITING, others=0, request=Request(max_nodes=1, gpu_type=gpu_type))
    shown = with_sockets(shown, [], 2)
    shown = replace(shown, nodes=replace(shown.nodes, gpu_type=("s0,s1",) * len(LEAVES)))
    plan, _ = VirtualClusterRule(DECLARED).decide(shown, FIFO)
    assert bool(plan.starts) is not bool(gpu_type)
    assert decisions.follow(shown, plan).waiting == waiting


def test_a_job_without_hardware_is_within_its_cells(decisions: Decisions, snapshot_of: Any) -> None:
    """All nodes run jobs that cannot be preempted: the cluster has free cells and no hardware for them."""
    snapshot = decisions.snapshot(1000.0, JobState.WAITING)
    fixed = replace(snapshot, jobs=replace(snapshot.jobs, movable=snapshot.jobs.movable & False))
    plan, _ = VirtualClusterRule(DECLARED).decide(fixed, FIFO)
    assert not plan.reserved
    assert decisions.follow(fixed, plan).waiting == 1


def test_jobs_beyond_the_cells_are_not_counted(decisions: Decisions) -> None:
    snapshot = decisions.snapshot(1000.0, JobState.WAITING)
    outside = replace(snapshot, jobs=replace(snapshot.jobs, virtual_cluster=(OUTSIDE,) * len(snapshot.jobs)))
    plan, _ = VirtualClusterRule(DECLARED).decide(outside, FIFO)
    decisions.follow(outside, plan)
    assert decisions.tracker.by_cluster == {}


def test_a_job_that_starts_beyond_its_cells_is_followed_until_it_runs(decisions: Decisions) -> None:
    """A decision preempts others for it, and a later one starts it on GPUs that are free meanwhile."""
    decisions.decide(0.0)
    waits = decisions.snapshot(10.0, JobState.WAITING)
    plan, _ = decisions._rule.decide(waits, FIFO)
    beyond = replace(plan, actions=(Start("812", (("n0", GPUS),)),), reserved=())
    assert decisions.follow(waits, beyond).waiting == 1
    assert decisions.decide(20.0, JobState.RUNNING, last_start=11.0).kept == 1
