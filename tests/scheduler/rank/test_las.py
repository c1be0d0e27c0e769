"""The order of jobs inside a queue, promotion, and the next moment at which that changes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import JobState
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.rank.las import Las
from tiresias.scheduler.rank.policy import ordered

PAPER = PolicyConfig.paper()


def ranked(snapshot: Any, config: Any = PAPER) -> Any:
    ranking = Las().rank(snapshot, config)
    return [snapshot.jobs.id[row] for row in ranking.order]


@pytest.fixture
def crowd(snapshot_of: Any) -> Any:
    """Eight jobs on plenty of nodes; time is 1000."""
    job = snapshot_of.Job
    low = {"attained": 4000.0, "ran": 4000.0, "submit": -9000.0}
    return snapshot_of(
        [
            job("new", submit=900),
            job("newer", submit=950),
            job("back", attained=50, ran=50, submit=0, waited=950, first_start=10, last_start=10, preempted=60),
            job("back later", attained=50, ran=50, submit=0, waited=950, first_start=20, last_start=20, preempted=70),
            job("runs", state=JobState.RUNNING, attained=200, ran=200, submit=800, first_start=800, last_start=800),
            job("runs longer", state=JobState.RUNNING, attained=300, ran=300, submit=0, first_start=15, last_start=700),
            job("low runs", state=JobState.RUNNING, first_start=-8000, last_start=-3000, **low),
            job("low waits", first_start=-9000, last_start=-9000, preempted=-5000, **low),
        ],
        [snapshot_of.Node(gpus=8)],
    )


def test_running_first(crowd: Any) -> None:
    assert ranked(crowd) == [
        "runs longer", "runs", "back later", "back", "new", "newer", "low runs", "low waits",
    ]  # fmt: skip


def test_first_start(crowd: Any) -> None:
    assert ranked(crowd, replace(PAPER, in_queue_order="first_start")) == [
        "back", "runs longer", "back later", "runs", "new", "newer", "low waits", "low runs",
    ]  # fmt: skip


def test_last_start(crowd: Any) -> None:
    assert ranked(crowd, replace(PAPER, in_queue_order="last_start")) == [
        "back", "back later", "runs longer", "runs", "new", "newer", "low waits", "low runs",
    ]  # fmt: skip


def test_a_job_that_sinks_now_ranks_below_waiting_jobs(snapshot_of: Any) -> None:
    job = snapshot_of.Job
    waits = job(
        "waits",
        attained=3300,
        ran=3300,
        submit=-5000,
        waited=2700,
        first_start=-5000,
        last_start=-5000,
        preempted=-1700,
    )
    sinks = job(
        "sinks", state=JobState.RUNNING, attained=3200, ran=3200, submit=-3000, first_start=-2200, last_start=-2200
    )
    nodes = [snapshot_of.Node()]
    assert ranked(snapshot_of([sinks, waits], nodes)) == ["waits", "sinks"]
    sank = replace(sinks, attained=3210, ran=3210, last_start=-2210)
    assert ranked(snapshot_of([sank, waits], nodes)) == ["sinks", "waits"]


def test_ties_go_by_number_in_the_id(snapshot_of: Any) -> None:
    jobs = [snapshot_of.Job(name) for name in ("10", "12_10", "9", "12_3", "100", "a2", "a10")]
    assert ranked(snapshot_of(jobs, [snapshot_of.Node()])) == ["9", "10", "12_3", "12_10", "100", "a2", "a10"]


def test_different_ids_never_tie() -> None:
    same = np.zeros(2)
    assert ordered([same], ("01", "1")).tolist() == ordered([same], ("1", "01")).tolist()[::-1]


@pytest.mark.parametrize(
    ("knobs", "promoted"),
    [
        ({}, False),
        ({"promote_knob": 2.0}, True),
        ({"promote_knob": 2.1}, False),
        ({"starve_limit": 8000.0}, True),
        ({"starve_limit": 8001.0}, False),
    ],
)
def test_promotion(snapshot_of: Any, knobs: Any, promoted: Any) -> None:
    """A job that ran 4,000 s and waited 8,000 s; ahead of it in queue 0 one that came before now."""
    starving = snapshot_of.Job(
        "1", 4, attained=16000, ran=4000, waited=8000, submit=-11000, preempted=-7000, last_start=-11000
    )
    fresh = snapshot_of.Job("2", 4, submit=990, waited=10)
    snapshot = snapshot_of([starving, fresh], [snapshot_of.Node()])
    plan = decide(snapshot, replace(PAPER, **knobs))
    assert plan.promoted == (("1",) if promoted else ())
    assert plan.queue.tolist() == [0 if promoted else 1, 0]
    assert plan.rank.tolist() == ([0, 1] if promoted and "starve_limit" in knobs else [1, 0])


def test_promoted_job_is_not_demoted_and_not_promoted_again(snapshot_of: Any) -> None:
    reset = snapshot_of.Job("1", 4, attained=0, ran=0, waited=0, submit=-11000, preempted=-7000, last_start=-11000)
    plan = decide(snapshot_of([reset], [snapshot_of.Node()]), replace(PAPER, promote_knob=2.0))
    assert plan.promoted == ()
    assert plan.queue.tolist() == [0]


def test_next_change(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    runs = job("1", 4, JobState.RUNNING, attained=3000, ran=750, submit=250, last_start=250)
    waits = job("2", 4, attained=4000, ran=1000, waited=1900, submit=-1900, preempted=-900, last_start=-1900)
    snapshot = snapshot_of([runs, waits], [node()])
    assert next_change(snapshot, PAPER) == pytest.approx(1050)
    assert next_change(snapshot, replace(PAPER, promote_knob=1.92)) == pytest.approx(1020)
    assert next_change(snapshot, replace(PAPER, min_run=770.0)) == pytest.approx(1020)
    assert next_change(snapshot, PolicyConfig(name="fifo")) == math.inf
