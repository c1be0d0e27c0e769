"""Fairness in simulations: the order kept from event to event, gains by gaming, and what counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.scheduler.rank.gittins import Gittins
from tiresias.scheduler.rank.policies import CLAIRVOYANT, POLICIES, with_owners
from tiresias.scheduler.rank.policy import Policy
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.outcome_metrics import by_owner
from tiresias.simulator.simulated_owners import owners_of
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import FREE, Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

CLUSTER = ClusterSize(1, 6)
EVERY: dict[str, Policy] = {**POLICIES, **CLAIRVOYANT, "gittins": Gittins(Distribution([5.0, 20.0, 60.0]).within)}
jobs = st.tuples(
    st.integers(0, 50).map(float),
    st.sampled_from([1, 1, 2, 4, 6]),
    st.integers(0, 60).map(float),
    st.sampled_from("abc"),
)
configs = st.builds(
    PolicyConfig,
    thresholds=st.sampled_from([(), (20.0,), (10.0, 50.0)]),
    fairness=st.sampled_from(["none", "users", "accounts"]),
    attained=st.sampled_from(["job", "array", "user"]),
    usage_half_life=st.sampled_from([30.0, float("inf")]),
    usage_period=st.sampled_from([1.0, 7.0, 40.0]),
    starve_limit=st.sampled_from([30.0, float("inf")]),
    min_run=st.sampled_from([3.0, 7.0]),
    min_run_cost_factor=st.just(0.0),
    preemption_cost=st.sampled_from([0.0, 5.0]),
)


def trace(rows: list[tuple[float, int, float, str]]) -> Trace:
    return Trace.of(
        TraceJob(f"{row // 3}_{row % 3}", *each[:3], user=each[3], vc=each[3] * 2) for row, each in enumerate(rows)
    )


def run(policy: Policy, config: PolicyConfig, jobs: Trace, cost: Cost = FREE, by_node: bool = False) -> Outcome:
    return simulate(jobs, CLUSTER, Rules(with_owners(policy, config), config, cost, by_node=by_node))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(list(EVERY)),
    st.lists(jobs, min_size=1, max_size=14).map(trace),
    configs,
    st.sampled_from([0.0, 0.5]),
)
def test_the_order_kept_from_event_to_event_is_that_of_whole_snapshots(
    name: str, jobs: Trace, config: PolicyConfig, resume: float
) -> None:
    pool, nodes = (run(EVERY[name], config, jobs, Cost(resume=resume), by_node) for by_node in (False, True))
    assert pool.finish.tolist() == nodes.finish.tolist()
    assert pool.preemptions.tolist() == nodes.preemptions.tolist()


def two_users(own: list[TraceJob]) -> Trace:
    """User b has jobs of a day on all GPUs; user a the given ones, of the second day."""
    return Trace.of([*(TraceJob(str(1000 + day), 0.0, 6, 86400.0, "b") for day in range(4)), *own])


def times(outcome: Outcome, trace: Trace, user: str) -> float:
    return float(outcome.finish[[each == user for each in trace.user]].max())


FAIR = replace(PolicyConfig.paper("fifo"), fairness="users")


def test_a_user_below_its_share_waits_for_no_user_above_its_own() -> None:
    trace = two_users([TraceJob("1", 90000.0, 6, 7200.0, "a")])
    fair, plain = (run(POLICIES["continuous_las"], config, trace) for config in (FAIR, replace(FAIR, fairness="none")))
    fifo = (
        run(POLICIES["best_effort"], FAIR, trace),
        run(POLICIES["best_effort"], replace(FAIR, fairness="none"), trace),
    )
    assert times(fair, trace, "a") <= times(plain, trace, "a")
    assert times(fifo[0], trace, "a") == pytest.approx(2 * 86400.0 + 7200.0)
    assert times(fifo[1], trace, "a") == pytest.approx(4 * 86400.0 + 7200.0)


@pytest.mark.parametrize("parts", [2, 8, 32])
@pytest.mark.parametrize("name", ["las", "best_effort"])
def test_splitting_does_not_return_a_user_above_its_share_to_the_front(name: str, parts: int) -> None:
    """User b has used all; however it splits what it has left, user a's jobs are first."""
    config = replace(PolicyConfig.paper(name), thresholds=(), fairness="users", usage_period=600.0)
    own = [TraceJob("1", 90000.0, 6, 7200.0, "a")]
    split = [TraceJob(str(2000 + part), 89000.0, 6, 86400.0 / parts, "b") for part in range(parts)]
    for rest in ([TraceJob("2000", 89000.0, 6, 86400.0, "b")], split):
        trace = Trace.of([TraceJob("0", 0.0, 6, 90000.0, "b"), *rest, *own])
        assert times(run(POLICIES[name], config, trace), trace, "a") == pytest.approx(97200.0)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(jobs, min_size=1, max_size=12).map(trace), configs, st.integers(2, 9))
def test_names_of_jobs_gain_nothing(jobs: Trace, config: PolicyConfig, factor: int) -> None:
    """Other ids of the same order, and other models."""
    config = replace(config, attained="user")
    renamed = Trace.of(replace(job, job_id=str(row * factor + 1), model="x") for row, job in enumerate(jobs.jobs()))
    assert run(POLICIES["las"], config, jobs).finish.tolist() == run(POLICIES["las"], config, renamed).finish.tolist()


def chain(count: int) -> Trace:
    """A chain of jobs of 50 s, each submitted when the one before ends; a job of another user that needs all GPUs."""
    links = [TraceJob(str(number), 50.0 * number, 6, 50.0, "chain") for number in range(count)]
    return Trace.of([*links, TraceJob("9000", 10.0, 6, 100.0, "other")])


def test_a_chain_of_short_jobs_wins_only_where_each_job_counts_alone() -> None:
    config = replace(PolicyConfig.paper(), thresholds=(350.0, 1e6), usage_period=10.0)
    alone, together = (
        run(POLICIES["las"], replace(config, attained=attained), chain(60)) for attained in ("job", "user")
    )
    assert times(alone, chain(60), "other") > 3000.0
    assert times(together, chain(60), "other") < 1000.0


def test_owners_of_a_trace() -> None:
    trace = Trace.of(
        [TraceJob("7_1", 0, 1, 1, "u", "v"), TraceJob("7_2", 0, 1, 1, "w", "v"), TraceJob("8", 0, 1, 1, "u", "x")]
    )
    found = {kind: owners_of(trace, kind).tolist() for kind in ("users", "accounts", "array")}
    assert found == {"users": [0, 1, 0], "accounts": [0, 0, 1], "array": [0, 0, 1]}


def test_the_jain_index_is_that_of_the_reciprocals_of_slowdowns() -> None:
    trace = Trace.of([TraceJob("1", 0, 6, 100, "a"), TraceJob("2", 0, 6, 100, "b")])
    found = by_owner(owners_of(trace, "users"), trace, run(POLICIES["fifo"], FAIR, trace))
    assert found["worst_slowdown"] == pytest.approx(2.0)
    assert found["jain_index"] == pytest.approx(1.5**2 / (2 * 1.25))
    assert np.isclose(found["mean_slowdown"], 1.5)


def test_owners_without_work_have_no_slowdown() -> None:
    idle = TraceJob("1", 0, 6, 0, "a")
    for jobs, owners in (([idle], 0), ([idle, TraceJob("2", 0, 6, 100, "b")], 1)):
        trace = Trace.of(jobs)
        found = by_owner(owners_of(trace, "users"), trace, run(POLICIES["fifo"], FAIR, trace))
        assert found == {"owners": owners, "jain_index": 1, "worst_slowdown": 1, "p90_slowdown": 1, "mean_slowdown": 1}


@pytest.mark.parametrize(("shares", "part"), [({}, 1 / 2), ({"a": 3.0, "b": 1.0}, 3 / 4), ({"a": 3.0}, 1 / 2)])
def test_users_that_always_wait_are_served_by_their_shares(shares: dict[str, float], part: float) -> None:
    """Each has 300 jobs of 2 GPUs and 20 s from the start. Counted is half of the time that all of them take."""
    trace = Trace.of(
        TraceJob(str(2 * row + at), 0.0, 2, 20.0, user=user) for row in range(300) for at, user in enumerate("ba")
    )
    config = replace(PolicyConfig.paper("fifo"), fairness="users", usage_period=20.0, usage_half_life=float("inf"))
    rules = Rules(with_owners(POLICIES["fifo"], config), config, shares=shares)
    outcome = simulate(trace, CLUSTER, rules)
    early = outcome.finish <= 2000.0
    of_a = np.array([user == "a" for user in trace.user])
    assert (early & of_a).sum() / early.sum() == pytest.approx(part, abs=0.05)
