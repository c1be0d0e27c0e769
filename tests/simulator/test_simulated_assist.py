"""Mode assist in simulations: Slurm's order, and preemptions for its first job where they gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.fifo import BEST_EFFORT
from tiresias.simulator import ClusterSize, Cost, EventKind, Rules, Simulation, Trace, TraceJob, simulate
from tiresias.simulator.simulated_assist import ASSIST

CONFIG = replace(PolicyConfig.paper(), min_run=60.0, preemption_cost=30.0)
CLUSTER = ClusterSize(2, 2)

rows = st.tuples(st.integers(0, 3000).map(float), st.integers(1, 4), st.integers(1, 5000).map(float))
traces = st.lists(rows, min_size=1, max_size=12).map(
    lambda jobs: Trace.of(TraceJob(str(number), *job) for number, job in enumerate(jobs))
)


def rules(config: PolicyConfig = CONFIG) -> Rules:
    return Rules(ASSIST, config, Cost(5.0, 25.0))


def test_a_short_job_is_spared_the_wait_for_a_long_one() -> None:
    """At 1,200 s the long job is expected to run for 1,200 s more, the short one for 60 s: 30 s of cost and 60 s of run."""
    jobs = Trace.of([TraceJob("long", 0.0, 4, 9000.0), TraceJob("short", 1200.0, 1, 100.0)])
    found = simulate(jobs, CLUSTER, rules())
    assert found.preemptions.tolist() == [1, 0]
    assert found.finish.tolist() == [9000.0 + 5.0 + 100.0 + 25.0, 1200.0 + 5.0 + 100.0]


def test_a_job_that_has_just_started_is_left_alone() -> None:
    jobs = Trace.of([TraceJob("first", 0.0, 4, 200.0), TraceJob("second", 10.0, 4, 200.0)])
    assert simulate(jobs, CLUSTER, rules()).preemptions.tolist() == [0, 0]


@settings(max_examples=examples(25), deadline=None)
@given(traces)
def test_without_preemptions_it_is_slurms_schedule(jobs: Trace) -> None:
    found = simulate(jobs, CLUSTER, rules(replace(CONFIG, min_run=1e9)))
    plain = simulate(jobs, CLUSTER, Rules(BEST_EFFORT, CONFIG, by_node=True))
    assert np.array_equal(found.start, plain.start)
    assert np.array_equal(found.finish, plain.finish)


@settings(max_examples=examples(25), deadline=None)
@given(traces)
def test_only_the_first_job_is_a_beneficiary_and_it_starts_next(jobs: Trace) -> None:
    """After a preemption the next start is that of the job that had waited the longest since it queued."""
    simulation, since, first = Simulation(jobs, CLUSTER, rules()), dict[int, float](), -1
    while simulation.step():
        seen = simulation.observe()
        started = [event.row for event in seen.events if event.kind is EventKind.START]
        if first >= 0 and started:
            assert first in started
            first = -1
        for event in seen.events:
            if event.kind in (EventKind.SUBMIT, EventKind.RELEASE):
                since[event.row] = seen.time
            if event.kind is EventKind.START:
                del since[event.row]
        preempted = {event.row for event in seen.events if event.kind is EventKind.PREEMPT}
        if preempted:
            first = min(since, key=lambda row: (since[row], row))
