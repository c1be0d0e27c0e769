"""Decisions of `decide` on small clusters, by hand: reasons, the order of jobs, victims and reservations."""

from __future__ import annotations

from typing import Any

import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide, reason
from tiresias.scheduler.model import JobState, Preempt, Request, Start
from tiresias.scheduler.rank.policies import POLICIES


def test_a_job_that_fits_nowhere_has_another_reason_than_one_that_waits(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of(
        [
            job("1", gpus=9),
            job("2", gpus=2, request=Request(features=frozenset({"nvlink"}))),
            job("3", gpus=4, request=Request(max_nodes=1), submit=5),
            job("4", gpus=2, state=JobState.RUNNING, movable=False),
        ],
        [node(), node(usable=False)],
    )
    plan = decide(snapshot, PolicyConfig("las"))
    words = [reason(plan, snapshot, row) for row in range(4)]
    assert words[0] == "can never run here: it asks for 9 GPUs, the managed nodes have 8"
    assert words[1].startswith("can never run here: no nodes")
    assert words[2].startswith("waits: ")
    assert words[3] == "runs, and may not be preempted now"


def test_fifo_keeps_the_order_but_skips_impossible_jobs(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    impossible = job("1", gpus=4, request=Request(gpus_per_node=3))
    snapshot = snapshot_of([impossible, job("2", gpus=3), job("3", gpus=2), job("4")], [node()])
    plan = decide(snapshot, PolicyConfig(name="fifo"))
    assert [start.job for start in plan.starts] == ["2"]
    assert reason(plan, snapshot, 3) == "waits: strict FIFO, and a higher-ranked job does not fit"
    overtaking = decide(snapshot, PolicyConfig(name="best_effort"))
    assert [start.job for start in overtaking.starts] == ["2", "4"]


def test_a_reservation_is_not_given_to_lower_ranked_jobs(snapshot_of: Any) -> None:
    """Job 3 would fit on what is free, but job 2 ahead of it waits for exactly these GPUs and for those that job 1 releases."""
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of(
        [job("1", gpus=2, state=JobState.RELEASING), job("2", gpus=4), job("3", gpus=2, submit=1)], [node()]
    )
    plan = decide(snapshot, PolicyConfig("las"))
    assert plan.starts == ()
    assert [start.job for start in plan.reserved] == ["2"]
    assert reason(plan, snapshot, 1) == "waits for job 1 to release n0 (4 GPUs)"


def test_victims_are_the_lowest_ranked_on_nodes_that_help(snapshot_of: Any) -> None:
    """Job 9 needs a whole node. The node of job 4 also runs job 3, which ranks higher, so jobs 1 and 2 are preempted."""
    job, node = snapshot_of.Job, snapshot_of.Node
    running = {"state": JobState.RUNNING, "attained": 9000.0, "ran": 500.0, "last_start": 500.0}
    snapshot = snapshot_of(
        [
            job("1", gpus=2, first_start=100, placement=((0, 2),), **running),
            job("2", gpus=2, first_start=200, placement=((0, 2),), **running),
            job("3", gpus=2, first_start=50, placement=((1, 2),), **{**running, "attained": 0.0}),
            job("4", gpus=2, first_start=400, placement=((1, 2),), **running),
            job("9", gpus=4, request=Request(max_nodes=1)),
        ],
        [node(), node()],
    )
    plan = decide(snapshot, PolicyConfig("las", in_queue_order="first_start"))
    assert sorted(one.job for one in plan.preemptions) == ["1", "2"]
    assert {one.beneficiary for one in plan.preemptions} == {"9"}


def test_free_gpus_of_a_reservation_start_no_other_job(snapshot_of: Any) -> None:
    """Job 2 will take one GPU of n0 and three of n1, so job 3 may not start on both GPUs that are free on n0 now."""
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of(
        [
            job("1", gpus=4, state=JobState.RELEASING, placement=((1, 4),)),
            job("2", gpus=4, request=Request(min_nodes=2)),
            job("3", gpus=2, submit=1),
        ],
        [node(gpus=2), node()],
    )
    plan = decide(snapshot, PolicyConfig("las"))
    assert plan.starts == ()
    assert plan.reserved == (Start("2", (("n0", 1), ("n1", 3))), Start("3", (("n0", 1), ("n1", 1))))


def test_higher_ranked_jobs_are_not_preempted_where_nodes_lack(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of(
        [
            job("1", gpus=4, state=JobState.RUNNING, first_start=100, last_start=100, placement=((0, 4),)),
            job("2", gpus=4, request=Request(nodes=frozenset({"n0"}))),
        ],
        [node(), node()],
    )
    plan = decide(snapshot, PolicyConfig("las"))
    assert plan.preemptions == ()
    assert reason(plan, snapshot, 1) == "waits: GPUs would be enough, but on no nodes that fit what it asks for"


def test_a_victim_that_is_not_needed_is_spared(snapshot_of: Any) -> None:
    """The last in order is too small; with the one before it preempted it is not needed."""
    job, node = snapshot_of.Job, snapshot_of.Node
    running = {"state": JobState.RUNNING, "attained": 9000.0, "ran": 500.0, "last_start": 500.0}
    snapshot = snapshot_of(
        [
            job("1", gpus=4, first_start=100, placement=((0, 4),), **running),
            job("2", gpus=1, first_start=200, placement=((0, 1),), **running),
            job("3", gpus=4, request=Request(nodes=frozenset({"n0"}), max_nodes=1)),
        ],
        [node(gpus=5), node()],
    )
    plan = decide(snapshot, PolicyConfig("las", in_queue_order="first_start"))
    assert plan.preemptions == (Preempt("1", "3"),)


def test_a_small_job_goes_on_beside_what_replaces_a_large_one(snapshot_of: Any) -> None:
    """Jobs 3 and 4 need three GPUs, so the walk gives up job 1 and keeps job 2, though job 2 ranks lower."""
    job, node = snapshot_of.Job, snapshot_of.Node
    running = {"state": JobState.RUNNING, "attained": 9000.0, "ran": 500.0, "last_start": 500.0}
    snapshot = snapshot_of(
        [
            job("1", gpus=3, first_start=100, placement=((0, 3),), **running),
            job("2", gpus=1, first_start=200, placement=((1, 1),), **running),
            job("3", gpus=1),
            job("4", gpus=2, submit=1),
        ],
        [node(gpus=3), node(gpus=1)],
    )
    plan = decide(snapshot, PolicyConfig("las", in_queue_order="first_start"))
    assert plan.preemptions == (Preempt("1", "3"),)
    assert [start.job for start in plan.reserved] == ["3", "4"]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_empty(snapshot_of: Any, name: Any) -> None:
    for snapshot in (snapshot_of([], [snapshot_of.Node()]), snapshot_of([snapshot_of.Job("1")], [])):
        plan = decide(snapshot, PolicyConfig(name=name))
        assert plan.actions == ()
        assert len(plan.effect) == len(snapshot.jobs)
