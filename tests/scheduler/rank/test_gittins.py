"""The order of jobs inside the queues of 2D-Gittins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tiresias.scheduler.config import ORDERS, PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import Completed, next_fit
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.continuous_gittins import ContinuousGittins
from tiresias.scheduler.rank.gittins import FIRST_FIT, Gittins
from tiresias.scheduler.rank.las import Las
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.rank.policy import IncrementalPolicy

PAPER = PolicyConfig.paper("gittins")
SERVICES = (500.0, 1000.0, 1000.0, 50_000.0, 60_000.0)


def ranked(policy: Any, snapshot: Any, config: Any = PAPER) -> Any:
    return [snapshot.jobs.id[row] for row in policy.rank(snapshot, config).order]


@pytest.fixture
def crowd(snapshot_of: Any) -> Any:
    """Waiting jobs of one GPU but for one of two; time is 1000."""

    def job(name: Any, attained: Any, gpus: Any = 1, **more: Any) -> Any:
        seen = {"first_start": -9e5, "last_start": -9e5, "preempted": -8e5} if attained else {}
        return snapshot_of.Job(name, gpus, attained=attained, ran=attained / gpus, submit=-1e6, **{**seen, **more})

    return snapshot_of(
        [
            job("new", 0.0),
            job("near its end", 900.0),
            job("near its end on two", 900.0, gpus=2),
            job("just begun", 100.0),
            job("long", 1100.0),
            job("low, first", 9000.0, first_start=-9.2e5),
            job("low, later", 4000.0, first_start=-9.1e5),
        ],
        [snapshot_of.Node()],
    )


def test_the_likeliest_to_end_for_the_least_service_goes_first(crowd: Any) -> None:
    """Within 3,200 GPU-s three of the five jobs above 100 end, for 1,720 on average; from 0 for 1,780. From 900 two of four end,
    for 1,650, and from 1,100 none. The last queue is in the order of the first start."""
    policy, config = Gittins(Distribution(SERVICES).within), replace(PAPER, in_queue_order="first_start")
    assert ranked(policy, crowd, config) == [
        "just begun",
        "new",
        "near its end",
        "near its end on two",
        "long",
        "low, first",
        "low, later",
    ]


def test_without_queues(crowd: Any) -> None:
    """The best quantum shows the job of 9,000 GPU-s, whose end is nearer, before that of 4,000."""
    policy = ContinuousGittins(Distribution(SERVICES).best)
    assert ranked(policy, crowd)[-3:] == ["low, first", "low, later", "long"]


def test_the_promoted_are_as_new(snapshot_of: Any) -> None:
    starving = snapshot_of.Job(
        "1", attained=4000, ran=4000, waited=8000, submit=-11000, first_start=-11000, last_start=-11000, preempted=-7000
    )
    fresh, begun = snapshot_of.Job("2", submit=990, waited=10), snapshot_of.Job("3", attained=100, ran=100, submit=0)
    snapshot = snapshot_of([starving, fresh, begun], [snapshot_of.Node()])
    policy, config = Gittins(Distribution(SERVICES).within), replace(PAPER, promote_knob=2.0)
    assert ranked(policy, snapshot, config) == ["3", "2", "1"]
    assert policy.rank(snapshot, config).promoted.tolist() == [True, False, False]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("thresholds", [(3200.0,), (100.0, 1000.0)])
def test_without_knowledge_it_is_las(crowd: Any, order: Any, thresholds: Any) -> None:
    config = replace(PAPER, in_queue_order=order, thresholds=thresholds)
    assert ranked(POLICIES["gittins"], crowd, config) == ranked(Las(), crowd, config)
    assert ranked(POLICIES["continuous_gittins"], crowd) == ranked(POLICIES["continuous_las"], crowd)


def test_one_queue_is_the_last_one_and_first_come_first_served(crowd: Any) -> None:
    policy = Gittins(Distribution(SERVICES).within)
    assert ranked(policy, crowd, replace(PAPER, thresholds=())) == ranked(Las(), crowd, replace(PAPER, thresholds=()))


@pytest.mark.parametrize("name", ["gittins", "continuous_gittins"])
def test_learns_from_those_who_completed(crowd: Any, name: Any) -> None:
    completed = Completed(np.ones(5, np.int64), np.array(SERVICES), np.zeros(5), ("",) * 5, ("",) * 5, ("",) * 5)
    assert POLICIES[name].refit_at == FIRST_FIT
    fitted = POLICIES[name].fitted(completed, crowd.jobs)
    known = Distribution(SERVICES)
    informed = Gittins(known.within) if name == "gittins" else ContinuousGittins(known.best)
    assert ranked(fitted, crowd) == ranked(informed, crowd)
    assert fitted.refit_at == next_fit(5) == 6


def test_all_fits_together_cost_little() -> None:
    """Each learns from all jobs so far."""
    fits, completed = [FIRST_FIT], 1_000_000
    while fits[-1] < completed:
        fits.append(next_fit(fits[-1]))
    assert len(fits) < 120
    assert sum(fits) < 13 * completed


def test_a_running_job_is_looked_at_anew_at_every_decision(snapshot_of: Any) -> None:
    """It becomes more promising as it runs; without knowledge its place changes at thresholds only."""
    runs = snapshot_of.Job(
        "1", state=JobState.RUNNING, attained=900, ran=900, submit=0, first_start=100, last_start=100
    )
    waits = snapshot_of.Job("2", attained=800, ran=800, submit=-900, first_start=-900, last_start=-900, preempted=-100)
    policy, config = Gittins(Distribution(SERVICES).within), PolicyConfig("las", thresholds=(1000.0,))
    snapshot = snapshot_of([runs, waits], [snapshot_of.Node()])
    assert ranked(policy, snapshot) == ["1", "2"]
    assert policy.drifts(snapshot.jobs, config).all()
    assert not policy.drifts(snapshot.jobs, PolicyConfig("las", thresholds=(800.0,))).any()
    registered = POLICIES["gittins"]
    assert isinstance(registered, IncrementalPolicy)
    assert not registered.drifts(snapshot.jobs, config)
