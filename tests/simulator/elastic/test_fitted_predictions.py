"""Predictions in a simulation that are fitted to what the runs have shown: they come near the truth, nearer with samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Floats
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import (
    ClusterSize,
    Cost,
    ElasticJob,
    EventKind,
    JobSize,
    Outcome,
    Rules,
    Simulation,
    Trace,
    TraceJob,
)
from tiresias.simulator.elastic.run_measurements import RunMeasurements
from tiresias.simulator.elastic_job import Speed
from tiresias.simulator.simulated_convergence import SimulatedConvergence

CLUSTER = ClusterSize(6, 4)
CONVERGENCE = SimulatedConvergence(slope=0.3, floor=0.1, threshold=0.01)


def step_of(compute: float, transfer: float) -> Speed:
    return lambda size: 1.0 / (compute / size.gpus + 0.02 + transfer * (size.nodes > 1) * size.nodes**0.5)


def rules(samples: int, **more: object) -> Rules:
    config = replace(PolicyConfig.paper("fifo"), sizing="marginal_gain", size_samples=samples)
    found = Rules(POLICIES["fifo"], config, Cost(5.0, 20.0), by_node=True, measurements=RunMeasurements())
    return replace(found, **more)  # type: ignore[arg-type]


def job(name: str, speed: Speed, **more: object) -> TraceJob:
    elastic = ElasticJob(1, 16, speed=speed, **more)  # type: ignore[arg-type]
    return TraceJob(name, 0.0, 1, 20_000.0, model=f"model of {name}", elastic=elastic)


def errors(trace: Trace, found: Rules, until: float) -> Floats:
    """Return the mean relative errors of the predictions, and the largest error of 1 for a job without one, shape (jobs,)."""
    simulation = Simulation(trace, CLUSTER, found)
    simulation.run(until=until)
    jobs = simulation.observe().snapshot.jobs
    assert jobs.seconds_by_size
    assert jobs.remaining is not None
    result = []
    for row, table, left in zip(map(int, jobs.id), jobs.seconds_by_size, jobs.remaining.tolist(), strict=True):
        elastic = trace.elastic[row]
        assert elastic
        speeds = elastic.table(16, CLUSTER.gpus_per_node)[0, 1:]
        true = left * speeds[0] / speeds
        result.append(1.0 if table is None else float(np.abs(table[0, 1:] / true - 1.0).mean()))
    return np.array(result)


def test_sampled_jobs_have_better_predictions_than_others() -> None:
    trace = Trace.of([job(str(at), step_of(1.0 + at, 0.1 * at)) for at in range(4)])
    sampled, unsampled = (errors(trace, rules(samples), 1500.0) for samples in (5, 0))
    assert sampled.mean() < 0.5 * unsampled.mean()
    assert sampled.max() < 0.25


def test_samples_are_bounded_and_cost_their_changes() -> None:
    trace = Trace.of([job("a", step_of(1.0, 0.1))])
    simulation = Simulation(trace, CLUSTER, rules(5))
    sizes, moments = [], []
    while simulation.step() and simulation.time < 1500.0:
        seen = simulation.observe()
        if any(event.kind == EventKind.START for event in seen.events):
            sizes.append(int(seen.snapshot.jobs.gpus[0]))
            moments.append(seen.time)
    assert len(set(sizes[:5])) == 5
    assert min(sizes) == 1
    assert np.diff(moments[:5]).tolist() == [65.0, 85.0, 85.0, 85.0], (
        "a sample, a pause, and a resume of each but the first"
    )
    simulation.run()
    assert simulation.outcome().overhead > 4 * 25.0


def test_samples_end_between_the_decisions_of_an_interval() -> None:
    trace = Trace.of([job("a", step_of(1.0, 0.1))])
    simulation = Simulation(trace, CLUSTER, rules(5, interval=600.0))
    simulation.run(until=500.0)
    assert simulation.outcome().resizes[0] == 0, "it has not ended"
    jobs = simulation.observe().snapshot.jobs
    assert jobs.starts is not None
    assert jobs.starts[0] == 5
    assert jobs.sizes_timed
    assert len(jobs.sizes_timed[0] or ()) == 5


def test_jobs_of_the_same_kind_are_not_sampled_again() -> None:
    first = job("a", step_of(1.0, 0.1))
    trace = Trace.of([first, replace(first, job_id="b", submit_time=2000.0)])
    simulation = Simulation(trace, CLUSTER, rules(5))
    simulation.run(until=2000.0)
    jobs = simulation.observe().snapshot.jobs
    assert jobs.seconds_by_size
    assert jobs.seconds_by_size[1] is not None, "predicted at its submission"


def split(size: JobSize) -> float:
    return 1.0 / (8.0 / size.workers + 2.0 * size.workers / size.servers) if size.servers and size.workers else 0.0


@pytest.mark.parametrize("has_servers", [False, True])
def test_the_end_is_predicted_from_the_losses(has_servers: bool) -> None:
    speed = split if has_servers else step_of(1.0, 0.1)
    elastic = ElasticJob(1 + has_servers, 8, speed=speed, has_servers=has_servers, convergence=CONVERGENCE)
    trace = Trace.of([TraceJob("a", 0.0, 1 + has_servers, 20_000.0, elastic=elastic)])
    simulation = Simulation(trace, CLUSTER, rules(5, interval=60.0))
    found = list[float]()
    while simulation.step():
        jobs = simulation.observe().snapshot.jobs
        if (
            len(jobs)
            and jobs.seconds_by_size
            and (table := jobs.seconds_by_size[0]) is not None
            and jobs.remaining is not None
        ):
            requested = (1, 1) if has_servers else (0, 1)
            found.append(float(table[requested] / jobs.remaining[0]))
    assert np.isfinite(simulation.outcome().finish).all()
    assert found
    assert 0.4 < np.median(found) < 2.5


def test_a_simulation_in_parts_is_that_of_the_whole() -> None:
    trace = Trace.of([job(str(at), step_of(1.0 + at, 0.1), convergence=CONVERGENCE) for at in range(3)])

    def outcome(cuts: list[float]) -> Outcome:
        simulation = Simulation(trace, CLUSTER, rules(5))
        for cut in cuts:
            simulation.run(until=cut)
            simulation.observe()
        simulation.run()
        return simulation.outcome()

    assert outcome([]).finish.tolist() == outcome([33.3, 1000.0, 1000.5, 5000.0]).finish.tolist()
