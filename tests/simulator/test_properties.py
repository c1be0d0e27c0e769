"""What holds for every trace, policy and knob. Small whole numbers, so that many events fall on the same moment."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.config import ORDERS, PolicyConfig
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.scheduler.rank.continuous_gittins import ContinuousGittins
from tiresias.scheduler.rank.gittins import Gittins
from tiresias.scheduler.rank.policies import CLAIRVOYANT, POLICIES
from tiresias.scheduler.rank.policy import Policy
from tiresias.simulator import job_transitions
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import FREE, Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

PAPER = PolicyConfig.paper()
CLUSTER = ClusterSize(2, 3)
KNOWN = Distribution([5.0, 20.0, 20.0, 60.0, 200.0])
# Those that learn do it early, so that short traces show it.
EVERY_POLICY: dict[str, Policy] = {
    **POLICIES,
    **CLAIRVOYANT,
    "gittins": Gittins(refit_at=2),
    "continuous_gittins": ContinuousGittins(refit_at=2),
    "gittins, fitted": Gittins(KNOWN.within),
    "continuous gittins, fitted": ContinuousGittins(KNOWN.best),
}

many = settings(max_examples=examples(100), deadline=None)
few = settings(max_examples=examples(40), deadline=None)  # node by node
names = st.sampled_from(list(EVERY_POLICY))

jobs = st.tuples(st.integers(0, 50).map(float), st.sampled_from([1, 1, 2, 4, 6]), st.integers(0, 60).map(float))
configs = st.builds(
    PolicyConfig,
    thresholds=st.sampled_from([(), (20.0,), (10.0, 50.0)]),
    in_queue_order=st.sampled_from(ORDERS),
    promote_knob=st.sampled_from([1.0, 3.0, float("inf")]),
    starve_limit=st.sampled_from([30.0, float("inf"), float("inf")]),
    drain_limit=st.sampled_from([0.0, 8.0, 3600.0]),
    min_run=st.sampled_from([0.0, 0.0, 7.0]),
    min_run_cost_factor=st.sampled_from([0.0, 0.0, 2.0]),
    cooldown=st.sampled_from([0.0, 0.0, 11.0]),
    max_preemptions=st.sampled_from([0, 0, 1, 2]),
    preemption_cost=st.sampled_from([0.0, 5.0]),
    quantum=st.sampled_from([5.0, 8.5]),
)
# Resuming takes less than the shortest run that these knobs allow: else no job makes progress and a simulation has no end.
costs = st.builds(Cost, pause=st.sampled_from([0.0, 0.0, 3.0]), resume=st.sampled_from([0.0, 0.0, 0.5]))


def trace(rows: list[tuple[float, int, float]]) -> Trace:
    return Trace.of(TraceJob(str(number), *row) for number, row in enumerate(rows))


traces = st.lists(jobs, min_size=1, max_size=14).map(trace)


@many
@given(names, traces, configs, costs)
def test_every_job_gets_its_work_and_no_more(name: str, jobs: Trace, config: PolicyConfig, cost: Cost) -> None:
    outcome = simulate(jobs, CLUSTER, Rules(EVERY_POLICY[name], config, cost))
    lost = outcome.preemptions * cost.pause
    assert np.isfinite(outcome.finish).all()
    assert (outcome.start >= jobs.submit).all()
    assert (outcome.jct >= jobs.duration + lost - 1e-6).all()
    unmoved = outcome.preemptions == 0
    assert np.allclose((outcome.finish - outcome.start)[unmoved], jobs.duration[unmoved])
    if config.max_preemptions:
        assert outcome.preemptions.max() <= config.max_preemptions


@many
@given(names, traces, configs, costs)
def test_the_timeline_is_that_of_the_jobs(name: str, jobs: Trace, config: PolicyConfig, cost: Cost) -> None:
    """GPU-seconds are work and overhead and nothing else; no job is lost on the way; no GPU is used twice; time goes on."""
    outcome = simulate(jobs, CLUSTER, Rules(EVERY_POLICY[name], config, cost))
    timeline = outcome.timeline
    assert (np.diff(timeline.time) >= 0).all()
    assert ((timeline.used >= 0) & (timeline.used <= CLUSTER.gpus)).all()
    assert timeline.used[-1] == 0
    held = float(timeline.used[:-1] @ np.diff(timeline.time))
    assert held == pytest.approx(float(jobs.gpus @ jobs.duration) + outcome.overhead, abs=1e-4)
    settled = np.append(np.diff(timeline.time) > 0, True)
    there = np.searchsorted(jobs.submit, timeline.time, side="right") - finished(outcome, timeline.time)
    assert ((timeline.running + timeline.waiting)[settled] == there[settled]).all()
    if cost == FREE:
        assert (timeline.running <= timeline.used).all()


def finished(outcome: Outcome, time: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(outcome.finish), time, side="right")


def assert_same(one: Outcome, other: Outcome) -> None:
    assert one.start.tolist() == other.start.tolist()
    assert one.finish.tolist() == other.finish.tolist()
    assert one.preemptions.tolist() == other.preemptions.tolist()
    assert one.overhead == pytest.approx(other.overhead)


@few
@given(names, traces, configs, costs.filter(lambda cost: not cost.pause))
def test_one_pool_is_as_good_as_all_nodes(name: str, jobs: Trace, config: PolicyConfig, cost: Cost) -> None:
    """Jobs that may run anywhere: the order kept from event to event, against `decide` on a snapshot of everything."""
    rules = Rules(EVERY_POLICY[name], config, cost)
    assert_same(simulate(jobs, CLUSTER, rules), simulate(jobs, CLUSTER, replace(rules, by_node=True)))


@few
@given(names, traces, configs, costs)
def test_one_pool_is_as_good_as_one_node(name: str, jobs: Trace, config: PolicyConfig, cost: Cost) -> None:
    """Also while preempted jobs still hold their GPUs. On several nodes other GPUs may be waited for than the first that come."""
    rules, node = Rules(EVERY_POLICY[name], config, cost), ClusterSize(1, 6)
    assert_same(simulate(jobs, node, rules), simulate(jobs, node, replace(rules, by_node=True)))


@many
@given(names, traces, configs, costs, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(
    name: str, jobs: Trace, config: PolicyConfig, cost: Cost, shuffle: random.Random
) -> None:
    """Nor does running it again."""
    rows = jobs.jobs()
    shuffle.shuffle(rows)
    rules = Rules(EVERY_POLICY[name], config, cost)
    again = Trace.of(rows)
    assert again.job_id == jobs.job_id
    one, two = simulate(jobs, CLUSTER, rules), simulate(again, CLUSTER, rules)
    assert_same(one, two)
    assert one.timeline.time.tolist() == two.timeline.time.tolist()
    assert one.decisions == two.decisions


@many
@given(names, traces, configs, costs, st.booleans())
def test_no_job_is_preempted_before_its_minimum_run_time(
    name: str, jobs: Trace, config: PolicyConfig, cost: Cost, by_node: bool
) -> None:
    """It counts from the first step: the seconds that the job needs to resume are no progress."""
    needed = max(config.min_run, config.min_run_cost_factor * config.preemption_cost)
    progress = []

    class Watched(SimulatedJob):
        __slots__ = ()

        def preempt(self, now: float, overhead: float) -> None:
            progress.append(now - (self.idle_until if needed else self.last_start))
            super().preempt(now, overhead)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_transitions, "SimulatedJob", Watched)
        simulate(jobs, CLUSTER, Rules(EVERY_POLICY[name], config, cost, by_node=by_node))
    assert min(progress, default=needed) >= needed - 1e-6


@many
@given(names, traces, configs, st.sampled_from([4.0, 10.0]))
def test_with_an_interval_jobs_start_at_its_multiples_only(
    name: str, jobs: Trace, config: PolicyConfig, interval: float
) -> None:
    outcome = simulate(jobs, CLUSTER, Rules(EVERY_POLICY[name], config, interval=interval))
    assert (outcome.start % interval == 0).all()
    assert np.isfinite(outcome.finish).all()


@pytest.mark.parametrize("name", ["las", "gittins"])
@many
@given(traces, configs)
def test_one_queue_is_best_effort(name: str, jobs: Trace, config: PolicyConfig) -> None:
    """In each order no running job is preempted, as jobs that never ran are last, in the order of submission."""
    one_queue = replace(config, thresholds=(), promote_knob=float("inf"), starve_limit=float("inf"))
    las = simulate(jobs, CLUSTER, Rules(EVERY_POLICY[name], one_queue))
    assert las.preemptions.sum() == 0
    assert_same(las, simulate(jobs, CLUSTER, Rules(POLICIES["best_effort"], PAPER)))


def mean_jct(jobs: Trace, cluster: ClusterSize, name: str) -> float:
    return float(simulate(jobs, cluster, Rules(EVERY_POLICY[name], PAPER)).jct.mean())


@many
@given(
    st.lists(
        st.tuples(st.integers(0, 50).map(float), st.just(1), st.integers(0, 60).map(float)), min_size=1, max_size=20
    )
)
def test_no_policy_is_better_than_srsf_on_one_gpu(rows: list[tuple[float, int, float]]) -> None:
    """There it is the shortest remaining time, which is the optimum."""
    jobs = trace(rows)
    best = mean_jct(jobs, ClusterSize(1, 1), "srsf") - 1e-9
    assert all(best <= mean_jct(jobs, ClusterSize(1, 1), name) for name in EVERY_POLICY)


@many
@given(st.lists(st.tuples(st.just(0.0), st.just(1), st.integers(0, 60).map(float)), min_size=1, max_size=14))
def test_srsf_is_never_worse_than_sf_for_single_gpus(rows: list[tuple[float, int, float]]) -> None:
    """On many GPUs the shortest first is the best where all come at once. With arrivals it may leave a GPU idle at the end that
    sf would have used, so nothing holds there for every trace."""
    jobs = trace(rows)
    assert mean_jct(jobs, CLUSTER, "srsf") <= mean_jct(jobs, CLUSTER, "sf") + 1e-9
