from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.scheduler.config import ORDERS, PolicyConfig
from tiresias.scheduler.policies import CLAIRVOYANT, POLICIES
from tiresias.simulator.cluster import Cluster
from tiresias.simulator.engine import simulate
from tiresias.simulator.rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

PAPER = PolicyConfig.paper()
LAS = POLICIES["las"]


def trace(*jobs: tuple[float, int, float]) -> Trace:
    """(submit, GPUs, duration)"""
    return Trace.of(TraceJob(str(row), *job) for row, job in enumerate(jobs, start=1))


FIGURE_7 = trace((0, 2, 2), (0, 1, 8), (0, 2, 6))


def test_figure_7_las():
    """Continuous priorities on a unit interval: one queue for each unit of service. Nobody starts a second time within a queue,
    so that the order of first starts is the order of the indexes, by which the paper breaks ties."""
    continuous = replace(PAPER, thresholds=tuple(map(float, range(1, 20))), in_queue_order="first_start")
    outcome = simulate(FIGURE_7, Cluster(1, 2), Rules(LAS, continuous, interval=1.0))
    assert outcome.jct.mean() == pytest.approx(35 / 3)


def test_figure_7_srsf():
    outcome = simulate(FIGURE_7, Cluster(1, 2), Rules(CLAIRVOYANT["srsf"], PAPER))
    assert outcome.jct.mean() == pytest.approx(28 / 3)
    assert outcome.finish.tolist() == [2.0, 16.0, 10.0] or outcome.finish.tolist() == [2.0, 10.0, 16.0]


def test_las_by_hand():
    """One node of 2 GPUs, threshold 20 GPU-s. Job 1 sinks at 10 s; job 2 comes at 15 s and takes its GPUs at once, with cost 0."""
    config = replace(PAPER, thresholds=(20.0,))
    outcome = simulate(trace((0, 2, 100), (15, 1, 5), (16, 1, 30)), Cluster(1, 2), Rules(LAS, config))
    # Job 3 sinks at 36 s, when job 1, which was preempted, is ahead of it in the lower queue.
    assert outcome.preemptions.tolist() == [1, 0, 1]
    assert outcome.start.tolist() == [0.0, 15.0, 16.0]
    assert outcome.finish.tolist() == [121.0, 20.0, 131.0]


def test_a_preempted_job_holds_its_gpus_while_it_leaves():
    config = replace(PAPER, thresholds=(20.0,))
    outcome = simulate(trace((0, 2, 100), (15, 2, 5)), Cluster(1, 2), Rules(LAS, config, cost=Cost(pause=3.0)))
    assert outcome.start.tolist() == [0.0, 18.0]
    assert outcome.finish.tolist() == [15 + 3 + 5 + 85, 23.0]


def test_fifo_and_best_effort_by_hand():
    jobs = trace((0, 3, 10), (1, 2, 10), (2, 1, 10))
    fifo = simulate(jobs, Cluster(1, 4), Rules(POLICIES["fifo"], PAPER))
    assert fifo.start.tolist() == [0.0, 10.0, 10.0]
    best_effort = simulate(jobs, Cluster(1, 4), Rules(POLICIES["best_effort"], PAPER))
    assert best_effort.start.tolist() == [0.0, 10.0, 2.0]


def test_starving_job_is_promoted():
    """Short jobs keep both GPUs busy from 20 s on; job 1 has run 10 s when it is preempted, so with knob 2 it is back at 40 s."""
    jobs = trace((0, 2, 50), *((20.0 + 5 * n, 2, 5) for n in range(40)))
    config = replace(PAPER, thresholds=(30.0,))
    starves = simulate(jobs, Cluster(1, 2), Rules(LAS, config))
    helped = simulate(jobs, Cluster(1, 2), Rules(LAS, replace(config, promote_knob=1.0)))
    assert starves.finish[0] == 250.0
    assert helped.finish[0] < 150.0


some_traces = st.lists(
    st.tuples(st.integers(0, 50).map(float), st.sampled_from([1, 1, 2, 4, 6]), st.integers(0, 60).map(float)),
    min_size=1, max_size=25,
).map(lambda jobs: trace(*sorted(jobs)))  # fmt: skip
some_rules = st.builds(
    Rules,
    policy=st.sampled_from([*POLICIES.values(), *CLAIRVOYANT.values()]),
    config=st.builds(
        PolicyConfig,
        thresholds=st.sampled_from([(), (20.0,), (10.0, 50.0)]),
        in_queue_order=st.sampled_from(ORDERS),
        promote_knob=st.sampled_from([1.0, 3.0, float("inf")]),
        min_run=st.sampled_from([0.0, 7.0]),
    ),
    cost=st.builds(Cost, pause=st.sampled_from([0.0, 0.0, 3.0]), resume=st.sampled_from([0.0, 0.0, 2.0])),
)
many = settings(max_examples=60, deadline=None)


@many
@given(some_traces, some_rules)
def test_every_job_gets_its_work_and_no_gpu_is_used_twice(jobs, rules):
    """Node capacity is checked inside the engine at every step; here that nothing is lost and time is counted right."""
    outcome = simulate(jobs, Cluster(2, 3), rules)
    submit, duration = jobs.submit, jobs.duration
    lost = outcome.preemptions * sum(rules.cost)
    assert np.isfinite(outcome.finish).all()
    assert (outcome.start >= submit).all()
    assert (outcome.jct >= duration + lost - 1e-6).all()
    unmoved = outcome.preemptions == 0
    assert np.allclose((outcome.finish - outcome.start)[unmoved], duration[unmoved])


@many
@given(some_traces, some_rules)
def test_same_input_same_output(jobs, rules):
    one, two = (simulate(jobs, Cluster(2, 3), rules) for _ in range(2))
    assert (one.finish == two.finish).all()
    assert (one.preemptions == two.preemptions).all()


@many
@given(some_traces)
def test_las_without_thresholds_by_first_start_never_preempts_for_the_first_to_come(jobs):
    """K = 1 in the order of the first start: nobody who runs has to leave, as those who never ran come last."""
    config = replace(PAPER, thresholds=(), in_queue_order="first_start")
    las = simulate(jobs, Cluster(2, 3), Rules(LAS, config))
    best_effort = simulate(jobs, Cluster(2, 3), Rules(POLICIES["best_effort"], PAPER))
    assert las.preemptions.sum() == 0
    assert (las.finish == best_effort.finish).all()
