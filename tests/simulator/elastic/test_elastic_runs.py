"""Elastic jobs in the simulator: sizes change, work and service are kept, and each job ends."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Floats, JobState
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import ClusterSize, Cost, EventKind, Outcome, Rules, Simulation, Trace, TraceJob, simulate
from tiresias.simulator.elastic_job import ElasticJob, JobSize, Prediction, Speed, by_steps
from tiresias.simulator.outcome_metrics import queueing

CLUSTER = ClusterSize(2, 4)


def rules(name: str = "fifo", sizing: str = "marginal_gain", **more: object) -> Rules:
    config = replace(PolicyConfig.paper(name), sizing=sizing)
    return replace(Rules(POLICIES[name], config), **more)  # type: ignore[arg-type]


def run(*jobs: TraceJob, **more: object) -> Outcome:
    return simulate(Trace.of(jobs), CLUSTER, rules(**more))  # type: ignore[arg-type]


def job(name: str, submit: float, gpus: int, duration: float, elastic: ElasticJob | None) -> TraceJob:
    return TraceJob(name, submit, gpus, duration, elastic=elastic)


def root(size: JobSize) -> float:
    return float(size.gpus**0.5)


def test_a_job_is_as_fast_as_its_speed_at_its_size() -> None:
    assert run(job("a", 0.0, 2, 1000.0, ElasticJob(1, 8))).jct.tolist() == [250.0]
    assert run(job("a", 0.0, 2, 1000.0, ElasticJob(1, 8, speed=root))).jct.tolist() == [500.0]
    assert run(job("a", 0.0, 2, 1000.0, ElasticJob(1, 8, speed=root)), sizing="fixed").jct.tolist() == [1000.0]


def test_the_nodes_of_a_job_count() -> None:
    def far(size: JobSize) -> float:
        return size.gpus / (1.0 if size.nodes == 1 else 3.0)

    assert run(job("a", 0.0, 1, 1000.0, ElasticJob(1, 8, speed=far))).jct.tolist() == [250.0], "four GPUs on one node"


def test_the_duration_follows_from_steps() -> None:
    assert by_steps(500.0, root, (2, 2)) == 250.0


def test_a_job_shrinks_for_another_one_and_grows_again() -> None:
    first, second = job("a", 0.0, 8, 1000.0, ElasticJob(4, 8)), job("b", 100.0, 4, 200.0, None)
    done = run(first, second, cost=Cost(pause=10.0, resume=20.0))
    assert done.start.tolist() == [0.0, 110.0]
    assert done.finish[1] == 310.0
    # a: 100 s of work on 8 GPUs, a pause, a resume; 180 s on 4 GPUs until b ends; a change again; the rest on 8.
    assert done.finish[0] == pytest.approx(310.0 + 30.0 + (1000.0 - 100.0 - 180.0 / 2.0))
    assert done.resizes.tolist() == [2, 0]
    assert done.preemptions.tolist() == [0, 0]


def test_queueing_of_an_elastic_job_is_its_time_without_gpus() -> None:
    """It takes less time than with the GPUs of its request; of a job of a fixed size it is the time without progress."""
    grown = job("a", 0.0, 2, 1000.0, ElasticJob(1, 8))
    trace = Trace.of([grown])
    assert queueing(trace, simulate(trace, CLUSTER, rules())).tolist() == [0.0]
    trace = Trace.of([job("f", 0.0, 8, 100.0, None), replace(grown, submit_time=40.0)])
    done = simulate(trace, CLUSTER, rules())
    assert done.jct.tolist() == [100.0, 60.0 + 250.0]
    assert queueing(trace, done).tolist() == [0.0, 60.0]


def test_queueing_counts_the_pauses_between_runs_of_an_elastic_job() -> None:
    first, second = job("a", 0.0, 8, 1000.0, ElasticJob(4, 8)), job("b", 100.0, 4, 200.0, None)
    trace = Trace.of([first, second])
    done = simulate(trace, CLUSTER, rules(cost=Cost(pause=10.0, resume=20.0)))
    assert queueing(trace, done).tolist() == pytest.approx([0.0, 10.0])
    assert done.held.tolist() == pytest.approx([done.finish[0], 200.0])


def test_a_change_of_size_that_does_not_pay_is_not_made() -> None:
    jobs = job("a", 0.0, 8, 100.0, ElasticJob(4, 8)), job("b", 0.0, 4, 80.0, ElasticJob(4, 4))
    assert run(*jobs, cost=Cost(resume=20.0)).resizes.tolist() == [1, 0]
    assert run(*jobs, cost=Cost(resume=60.0)).resizes.tolist() == [0, 0]


def test_resized_jobs_start_again_between_the_decisions_of_an_interval() -> None:
    first, second = job("a", 0.0, 8, 1000.0, ElasticJob(4, 8)), job("b", 100.0, 4, 5000.0, None)
    done = run(first, second, cost=Cost(pause=10.0), interval=600.0)
    assert done.start.tolist() == [0.0, 610.0]
    assert done.finish[0] == 610.0 + 2 * 400.0


def test_attained_service_counts_the_gpus_of_each_run() -> None:
    first, second = job("a", 0.0, 8, 1000.0, ElasticJob(4, 8)), job("b", 100.0, 4, 200.0, None)
    simulation = Simulation(Trace.of([first, second]), CLUSTER, rules(cost=Cost(10.0, 20.0)))
    simulation.run(until=200.0)
    assert simulation.observe().snapshot.jobs.attained[0] == 110.0 * 8 + 90.0 * 4


def test_a_job_with_servers_runs_with_the_fastest_split() -> None:
    def speed(size: JobSize) -> float:
        return 1.0 / (8.0 / size.workers + 2.0 * size.workers / size.servers)

    best = max(speed(JobSize((4, 4), servers)) for servers in range(1, 8))
    done = run(job("a", 0.0, 2, 1000.0, ElasticJob(2, 8, speed=speed, has_servers=True)))
    assert done.jct[0] == pytest.approx(1000.0 * speed(JobSize((2,), 1)) / best)


def test_a_job_changes_its_servers_alone_once_that_is_predicted_to_pay() -> None:
    """Four GPUs. In the first 1,600 s one server is predicted to be best, then two, which are twice as fast."""

    def speed(size: JobSize) -> float:
        return {1: 1.0, 2: 2.0}.get(size.servers, 0.5)

    def learned(done: float, seconds: Floats) -> Prediction:
        wrong = np.where(np.arange(len(seconds))[:, None] == 2, 10.0 * seconds, seconds)
        return Prediction(wrong if done < 0.4 else seconds, uncertain=False)

    elastic = ElasticJob(4, 8, speed=speed, has_servers=True, predict=learned)
    jobs = [job("a", 0.0, 4, 2000.0, elastic), job("b", 0.0, 4, 1000.0, None)]
    done = run(*jobs, cost=Cost(pause=10.0, resume=20.0), interval=100.0)
    assert done.resizes.tolist() == [1, 0]
    assert done.finish[0] == 1600.0 + 30.0 + 1200.0
    assert run(*jobs, cost=Cost(pause=10.0, resume=900.0), interval=100.0).resizes.tolist() == [0, 0]


def test_a_wrong_prediction_chooses_another_size() -> None:
    def least(done: float, seconds: Floats) -> Prediction:
        return Prediction(np.where(np.arange(seconds.shape[1]) == 1, 1.0, seconds), uncertain=True)

    assert run(job("a", 0.0, 2, 1000.0, ElasticJob(1, 8, predict=least))).jct.tolist() == [2000.0]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda: ElasticJob(4, 2), "sizes 4 to 2 by 1 are not possible"),
        (lambda: ElasticJob(1, 2, has_servers=True), "give 2 <= least"),
        (lambda: ElasticJob(1, 2, 0), "a step of 1 or more"),
        (lambda: run(job("a", 0.0, 4, 1.0, ElasticJob(1, 2))), "job a requests 4 GPUs and can use 1 to 2"),
        (
            lambda: run(job("a", 0.0, 4, 1.0, ElasticJob(1, 8, speed=lambda size: 0.0))),
            "job a has no speed with the 4 GPUs that it requests",
        ),
    ],
)
def test_sizes_that_are_not_possible_are_refused(made: object, problem: str) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        made()  # type: ignore[operator]


def test_the_rows_of_a_trace_keep_their_sizes() -> None:
    sizes = ElasticJob(1, 4)
    trace = Trace.of([job("b", 5.0, 2, 10.0, sizes), job("a", 0.0, 1, 10.0, None)])
    assert trace.elastic == (None, sizes)
    assert trace.first(1).elastic == (None,)
    assert [one.elastic for one in trace.jobs()] == [None, sizes]
    assert Trace.of(trace.jobs()).elastic == trace.elastic


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Trace, Rules]:
    jobs = []
    for number in range(draw(st.integers(1, 7))):
        power, servers = draw(st.floats(0.1, 1.0)), draw(st.booleans())
        least = draw(st.integers(1, 3)) + servers
        gpus, step = least + draw(st.integers(0, 3)), draw(st.integers(1, 3))
        elastic = ElasticJob(least, gpus + draw(st.integers(0, 6)), step, _power(power), servers)
        made = elastic if draw(st.booleans()) else None
        jobs.append(job(str(number), draw(st.integers(0, 500)), gpus, draw(st.integers(0, 2000)), made))
    costs = Cost(draw(st.sampled_from([0.0, 5.0])), draw(st.sampled_from([0.0, 30.0])))
    sizing = draw(st.sampled_from(["marginal_gain", "minimum_first", "fixed"]))
    name, interval = draw(st.sampled_from(["fifo", "las"])), draw(st.sampled_from([0.0, 60.0]))
    return Trace.of(jobs), rules(name, sizing, cost=costs, interval=interval)


def _power(power: float) -> Speed:
    return lambda size: size.workers**power * (1.0 if size.nodes == 1 else 0.7)


@settings(max_examples=examples(40), deadline=None)
@given(workloads(), st.lists(st.floats(0, 3000), max_size=4))
def test_sizes_stay_within_limits_and_work_is_kept(found: tuple[Trace, Rules], cuts: list[float]) -> None:
    trace, given_rules = found
    simulation = Simulation(trace, CLUSTER, given_rules)
    left = {str(row): float(seconds) for row, seconds in enumerate(trace.duration)}
    while simulation.step():
        shown = simulation.observe().snapshot
        jobs, held = shown.jobs, shown.jobs.state != JobState.WAITING
        assert jobs.gpus[held].sum() + shown.nodes.free["gpus"].sum() == CLUSTER.gpus
        assert jobs.remaining is not None
        for name, gpus, seconds in zip(jobs.id, jobs.gpus.tolist(), jobs.remaining.tolist(), strict=True):
            sizes = trace.elastic[int(name)] if trace.elastic else None
            request = int(trace.gpus[int(name)])
            assert gpus == request or (
                sizes and sizes.least <= gpus <= sizes.most and (gpus - request) % sizes.step == 0
            )
            assert -1e-6 <= seconds <= left[name] + 1e-6, "no work is lost"
            left[name] = seconds
    whole = simulation.outcome()
    assert np.isfinite(whole.finish).all()
    simulation.reset()
    for cut in sorted(cuts):
        simulation.run(until=cut)
    simulation.run()
    parts = simulation.outcome()
    assert parts.finish.tolist() == whole.finish.tolist()
    assert parts.resizes.tolist() == whole.resizes.tolist()


def test_events_show_changes_of_size() -> None:
    first, second = job("a", 0.0, 8, 1000.0, ElasticJob(4, 8)), job("b", 100.0, 4, 200.0, None)
    simulation = Simulation(Trace.of([first, second]), CLUSTER, rules(cost=Cost(10.0, 20.0)))
    simulation.run(until=100.0)
    assert [event.kind for event in simulation.observe().events] == [EventKind.SUBMIT, EventKind.RESIZE]
