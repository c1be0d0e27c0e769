"""Policies between owners: levels of tags."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.random_clusters import any_jobs, build, policies
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.fairness.owner_shares import level_of
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.rank.policies import POLICIES, policy_of, with_owners
from tiresias.scheduler.rank.policy import Policy, Ranking, Row

FAIR = PolicyConfig(name="las", fairness="users", starve_limit=500.0)
some = settings(max_examples=examples(40), deadline=None)


class InOrder(Policy):
    """A policy without keys."""

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        return Ranking.of(range(len(snapshot.jobs)))


def with_excess(snapshot: Snapshot, excess: list[float]) -> Snapshot:
    return replace(snapshot, jobs=replace(snapshot.jobs, owner_excess=np.array(excess, np.float64)))


def test_owners_count_only_where_they_are_asked_for() -> None:
    assert policy_of(PolicyConfig(name="las")) is POLICIES["las"]
    assert policy_of(FAIR) is not POLICIES["las"]


@some
@given(jobs=any_jobs, config=policies, excess=st.floats(0.0, 1e7))
def test_with_equal_owners_the_order_is_the_policys(
    snapshot_of: Any, jobs: Any, config: PolicyConfig, excess: float
) -> None:
    config = replace(config, fairness="accounts")
    snapshot = build(snapshot_of, jobs, [{"gpus": 8, "leaf": 0}])
    policy = POLICIES[config.name]
    plain = policy.rank(snapshot, config)
    starves = policy.starves(snapshot.jobs, snapshot.time, config, plain.promoted)
    assume(not (starves & (plain.queue > 0)).any())  # a promoted job is in the first queue
    for seen in (snapshot, with_excess(snapshot, [excess] * len(snapshot.jobs))):
        found = policy_of(config).rank(seen, config)
        assert (found.order.tolist(), found.queue.tolist()) == (plain.order.tolist(), plain.queue.tolist())
        assert found.promoted.tolist() == plain.promoted.tolist()


@pytest.mark.parametrize("policy", [POLICIES["las"], POLICIES["fifo"], InOrder()], ids=["las", "fifo", "no keys"])
def test_the_owner_that_used_less_goes_first(snapshot_of: Any, policy: Policy) -> None:
    jobs = [snapshot_of.Job(str(number), submit=1000.0) for number in range(4)]
    snapshot = with_excess(snapshot_of(jobs, [snapshot_of.Node()]), [1e5, 1e3, 0.0, 1.1e3])
    assert with_owners(policy, FAIR).rank(snapshot, FAIR).order.tolist() == [2, 1, 3, 0]


def test_las_adds_what_the_owner_used_to_the_queue_of_the_job(snapshot_of: Any) -> None:
    """The job of queue 2 goes before new jobs of owners that used much more, and after those of owners that used less."""
    jobs = [
        snapshot_of.Job("1", attained=5000.0, ran=5000.0),
        *(snapshot_of.Job(str(one), submit=1e3) for one in (2, 3)),
    ]
    snapshot = with_excess(snapshot_of(jobs, [snapshot_of.Node()]), [0.0, 600.0, 50_000.0])
    found = policy_of(FAIR).rank(snapshot, FAIR)
    assert found.order.tolist() == [1, 0, 2]
    assert found.queue.tolist() == [1, 0, 0]


def test_adaptive_adds_what_the_owner_used_to_what_a_completion_costs(snapshot_of: Any) -> None:
    config = PolicyConfig(fairness="users")
    jobs = [snapshot_of.Job("1", gpus=4000), snapshot_of.Job("2", gpus=1), snapshot_of.Job("3", gpus=1)]
    snapshot = with_excess(snapshot_of(jobs, [snapshot_of.Node()]), [0.0, 9.0, 1e9])
    assert policy_of(config).rank(snapshot, config).order.tolist() == [1, 0, 2]


@pytest.mark.parametrize("name", ["las", "gittins", "adaptive"])
def test_a_starving_job_goes_first_whatever_its_owner_used(snapshot_of: Callable[..., Any], name: str) -> None:
    config = replace(FAIR, name=name, starve_factor=math.inf)
    jobs = [snapshot_of.Job("1", waited=600.0), snapshot_of.Job("2", waited=10.0, submit=990.0)]  # type: ignore[attr-defined]
    snapshot = with_excess(snapshot_of(jobs, [snapshot_of.Node()]), [1e6, 0.0])  # type: ignore[attr-defined]
    assert policy_of(config).rank(snapshot, config).order.tolist() == [0, 1]


def test_each_starve_limit_of_waiting_halves_what_the_owner_used(snapshot_of: Callable[..., Any]) -> None:
    """So no owner's use keeps a job waiting for ever under `adaptive`."""
    config = replace(FAIR, name="adaptive")
    for waited, order in ((400.0, [1, 0]), (500.0 * 20, [0, 1])):
        jobs = [snapshot_of.Job("1", waited=waited), snapshot_of.Job("2", waited=10.0, submit=990.0)]  # type: ignore[attr-defined]
        snapshot = with_excess(snapshot_of(jobs, [snapshot_of.Node()]), [1e6, 0.0])  # type: ignore[attr-defined]
        assert policy_of(config).rank(snapshot, config).order.tolist() == order


def test_words_name_what_the_owner_used_more(snapshot_of: Any) -> None:
    jobs = [snapshot_of.Job("1", state=JobState.RUNNING, ran=5.0, attained=5.0, last_start=995.0)]
    snapshot = with_excess(snapshot_of(jobs, [snapshot_of.Node()]), [7200.0])
    words = policy_of(FAIR).standing(Row(snapshot.jobs, 0), 0, 1000.0, FAIR)
    assert words == "Q1; its user used 2.0 GPU-hours more than the waiting user with the least"


@given(st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_levels_rise_with_excess(one: float, other: float) -> None:
    assert (level_of(one) <= level_of(other)) or one > other
