"""`Simulation` step by step: the result is that of one run, whatever is observed on the way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiresias.simulator
from tests.examples import examples
from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.gittins import Gittins
from tiresias.scheduler.rank.policies import CLAIRVOYANT, POLICIES
from tiresias.simulator import ClusterSize, Cost, EventKind, Outcome, Rules, Simulation, Trace, TraceJob, simulate
from tiresias.simulator.failures import Exponential, Failure, Listed
from tiresias.simulator.simulated_assist import ASSIST

CLUSTER = ClusterSize(2, 3)
CONFIG = replace(PolicyConfig.paper(), thresholds=(10.0, 50.0), promote_knob=3.0)
EVERY_POLICY = {**POLICIES, **CLAIRVOYANT, "gittins": Gittins(refit_at=2), "assist": ASSIST}

rows = st.tuples(st.integers(0, 50).map(float), st.sampled_from([1, 1, 2, 4, 6]), st.integers(0, 60).map(float))
several = settings(max_examples=examples(30), deadline=None)


def trace(jobs: list[tuple[float, int, float]]) -> Trace:
    return Trace.of(TraceJob(str(number), *job) for number, job in enumerate(jobs))


def rules_of(policy: str, by_node: bool, cost: Cost, interval: float, failures: bool) -> Rules:
    broken = Exponential(40.0, 5.0, 1) if by_node and failures else None
    return Rules(
        EVERY_POLICY[policy], CONFIG, cost, interval=interval, by_node=by_node, failures=broken, checkpoint_interval=2.0
    )


traces = st.lists(rows, min_size=1, max_size=12).map(trace)
some_rules = st.builds(
    rules_of,
    st.sampled_from(list(EVERY_POLICY)),
    st.booleans(),
    st.sampled_from([Cost(), Cost(3.0, 0.5)]),
    st.sampled_from([0.0, 4.0]),
    st.booleans(),
)
moments = st.floats(0.0, 400.0)


def assert_same(one: Outcome, other: Outcome) -> None:
    for name in ("start", "finish", "jct", "preemptions"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    for name in ("time", "used", "running", "waiting"):
        assert getattr(one.timeline, name).tolist() == getattr(other.timeline, name).tolist(), name
    assert (one.decisions, one.overhead, one.lost) == (other.decisions, other.overhead, other.lost)


@several
@given(traces, some_rules)
def test_stepping_and_observing_to_the_end_is_one_run(jobs: Trace, rules: Rules) -> None:
    simulation = Simulation(jobs, CLUSTER, rules)
    times, finished = [], 0
    while simulation.step():
        seen = simulation.observe()
        times.append(seen.time)
        finished += sum(event.kind is EventKind.FINISH for event in seen.events)
        assert seen.completed == finished
        assert seen.done == simulation.done
    assert times == sorted(times)
    assert not simulation.step()
    assert_same(simulation.outcome(), simulate(jobs, CLUSTER, rules))


@several
@given(traces, some_rules, moments)
def test_after_reset_a_run_is_the_first_run(jobs: Trace, rules: Rules, until: float) -> None:
    simulation = Simulation(jobs, CLUSTER, rules)
    simulation.run(until)
    simulation.reset()
    assert (simulation.time, simulation.observe().completed, len(simulation.observe().snapshot.jobs)) == (0.0, 0, 0)
    simulation.run()
    assert_same(simulation.outcome(), simulate(jobs, CLUSTER, rules))


@several
@given(traces, some_rules, st.lists(moments, min_size=1, max_size=5))
def test_a_run_in_several_parts_is_one_run(jobs: Trace, rules: Rules, parts: list[float]) -> None:
    simulation = Simulation(jobs, CLUSTER, rules)
    for until in sorted(parts):
        simulation.run(until)
        before = simulation.outcome()
        assert simulation.done or simulation.time == until
        assert not (before.finish > until).any()
        simulation.run(until)
        assert_same(simulation.outcome(), before)
    simulation.run()
    assert_same(simulation.outcome(), simulate(jobs, CLUSTER, rules))


@several
@given(traces, some_rules, traces, some_rules)
def test_simulations_side_by_side_do_not_disturb_each_other(
    jobs: Trace, rules: Rules, other: Trace, more: Rules
) -> None:
    one, two = Simulation(jobs, CLUSTER, rules), Simulation(other, CLUSTER, more)
    while one.step() | two.step():
        pass
    assert_same(one.outcome(), simulate(jobs, CLUSTER, rules))
    assert_same(two.outcome(), simulate(other, CLUSTER, more))


@several
@given(traces, some_rules, moments)
def test_the_snapshot_accounts_for_every_gpu_and_job(jobs: Trace, rules: Rules, until: float) -> None:
    simulation = Simulation(jobs, CLUSTER, rules)
    simulation.run(until)
    seen, ended = simulation.observe(), np.isfinite(simulation.outcome().finish)
    snapshot = seen.snapshot
    assert snapshot.time == seen.time
    there = np.flatnonzero((jobs.submit <= until) & ~ended).tolist() if not seen.done else []
    assert sorted(map(int, snapshot.jobs.id)) == there
    holders = snapshot.jobs.state != JobState.WAITING
    assert snapshot.allocations.resources["gpus"].sum() == snapshot.jobs.gpus[holders].sum()
    assert snapshot.allocations.resources["gpus"].sum() + snapshot.nodes.free["gpus"].sum() == CLUSTER.gpus


def test_events_and_observations_by_hand() -> None:
    """Job 0 holds both GPUs and sinks at 5 s; job 1 arrives at 8 s, preempts it, and ends at 12 s. That
    job 0 would have ended at 20 s is no event."""
    jobs = trace([(0, 2, 20), (8, 2, 4)])
    simulation = Simulation(jobs, ClusterSize(1, 2), Rules(POLICIES["las"], CONFIG))
    reported = []
    while simulation.step():
        seen = simulation.observe()
        reported.append((seen.time, [(event.kind.value, event.row) for event in seen.events]))
    assert reported == [
        (0.0, [("submit", 0), ("start", 0)]),
        (5.0, [("change", 0)]),
        (8.0, [("submit", 1), ("preempt", 0), ("release", 0), ("start", 1)]),
        (12.0, [("finish", 1), ("start", 0)]),
        (24.0, [("finish", 0)]),
    ]


def test_between_two_events_the_clock_is_where_the_run_ended() -> None:
    simulation = Simulation(trace([(0, 2, 20)]), ClusterSize(1, 2), Rules(POLICIES["fifo"], CONFIG))
    simulation.run(until=7.5)
    seen = simulation.observe()
    assert seen.snapshot.jobs.remaining is not None
    assert (seen.time, seen.snapshot.jobs.attained.tolist(), seen.snapshot.jobs.remaining.tolist()) == (
        7.5,
        [15.0],
        [12.5],
    )
    assert math.isnan(simulation.outcome().finish[0])


def test_a_node_that_fails_is_seen() -> None:
    failures = Listed((Failure(10.0, 0, 5.0),))
    rules = Rules(POLICIES["fifo"], CONFIG, by_node=True, failures=failures)
    simulation = Simulation(trace([(0, 3, 20)]), CLUSTER, rules)
    simulation.run(until=10.0)
    seen = simulation.observe()
    assert [(event.kind, event.row) for event in seen.events] == [
        (EventKind.NODE_DOWN, 0),
        (EventKind.KILL, 0),
        (EventKind.START, 0),
    ]
    assert seen.snapshot.nodes.usable.tolist() == [False, True]


def test_a_job_larger_than_the_cluster_is_refused() -> None:
    with pytest.raises(UsageError, match="job 0 requests 7 GPUs and the cluster has 6"):
        Simulation(trace([(0, 7, 1)]), CLUSTER, Rules(POLICIES["fifo"], CONFIG))


def test_jobs_that_can_never_start_end_the_simulation_with_an_error() -> None:
    down = Listed((Failure(0.0, 0, math.inf), Failure(0.0, 1, math.inf)))
    simulation = Simulation(trace([(1, 1, 1)]), CLUSTER, Rules(POLICIES["fifo"], CONFIG, by_node=True, failures=down))
    with pytest.raises(UsageError, match="1 jobs wait at 1 s and no event is due"):
        simulation.run()
    simulation.run(until=50.0)
    assert simulation.time == 50.0


def test_an_empty_trace_is_done() -> None:
    simulation = Simulation(Trace.of([]), CLUSTER, Rules(POLICIES["fifo"], CONFIG))
    assert simulation.done
    assert not simulation.step()


def test_the_package_exports_what_it_names() -> None:
    assert all(hasattr(tiresias.simulator, name) for name in tiresias.simulator.__all__)
    with pytest.raises(AttributeError, match="engine"):
        _ = tiresias.simulator.engine
