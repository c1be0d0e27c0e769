"""Speeds of simulated nodes that the controller's estimator learns of simulated runs, and jobs that are placed by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import ClusterSize, Rules, Trace, TraceJob, simulate
from tiresias.simulator.learned_simulated_speeds import LearnedSimulatedSpeeds, kind_of
from tiresias.simulator.placement_workloads import PlacementWorkload
from tiresias.simulator.simulated_node_speeds import SimulatedNodeSpeeds
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulated_speed_samples import learned_speeds, simulated_runs

CLUSTER = ClusterSize(4, 4, 4)
SLOWNESS = np.array([1.0, 1.6, 0.9, 1.0])


def rules(
    style: str, speeds: SimulatedNodeSpeeds | None = None, learned: LearnedSimulatedSpeeds | None = None
) -> Rules:
    placement = replace(SimulatedPlacement.named(style), speeds=speeds, learned_speeds=learned)
    return Rules(POLICIES["fifo"], PolicyConfig(name="fifo"), by_node=True, placement=placement)


def test_each_job_is_a_run_on_its_nodes_with_its_slowdown() -> None:
    jobs = [
        TraceJob("first", 0.0, num_gpus=4, duration=100.0, model="ResNet50"),
        TraceJob("wide", 1.0, num_gpus=8, duration=50.0, model="resnet50"),
        TraceJob("later", 200.0, num_gpus=1, duration=10.0, model="googlenet"),
    ]
    speeds = SimulatedNodeSpeeds(np.array([2.0, 1.0, 1.5, 1.0]), {"googlenet": 0.0})
    names = CLUSTER.names
    found = {run.job: run for run in simulated_runs(Trace.of(jobs), CLUSTER, rules("first_fit", speeds))}
    assert (found["0"].nodes, found["0"].start, found["0"].end) == (names[:1], 0.0, 200.0)
    assert (set(found["1"].nodes), found["1"].gpus) == (set(names[1:3]), 8)
    assert [found[job].seconds for job in ("0", "1", "2")] == pytest.approx([2.0, 1.5, 1.0])
    assert found["0"].kind == kind_of("resnet50", 4) != found["1"].kind


def test_planted_speeds_are_learned_from_noisy_step_times() -> None:
    speeds = SimulatedNodeSpeeds(SLOWNESS)
    runs = simulated_runs(PlacementWorkload(300).trace(1, CLUSTER.gpus), CLUSTER, rules("consolidate", speeds))
    assert len(runs) == 300
    found, shown = learned_speeds(runs, 0.03, 1, CLUSTER.names)
    assert found.slowness is not None
    assert found.slowness == pytest.approx(SLOWNESS, rel=0.05)
    assert list(shown.slow) == [CLUSTER.names[1]]
    again, _ = learned_speeds(runs, 0.03, 1, CLUSTER.names)
    assert again.slowness is not None
    assert (again.slowness == found.slowness).all(), "the seed determines the noise"


def test_of_equal_nodes_nothing_is_learned_and_jobs_are_consolidated() -> None:
    trace = PlacementWorkload(100).trace(2, CLUSTER.gpus)
    found, shown = learned_speeds(simulated_runs(trace, CLUSTER, rules("consolidate")), 0.05, 1, CLUSTER.names)
    assert (found.slowness, dict(shown.nodes)) == (None, {})
    plain = simulate(trace, CLUSTER, rules("consolidate")).jct
    assert (simulate(trace, CLUSTER, rules("fastest_nodes", learned=found)).jct == plain).all()


def test_without_runs_nothing_is_learned() -> None:
    assert learned_speeds([], 0.05, 1, CLUSTER.names)[0].slowness is None


def test_jobs_are_placed_by_learned_speeds_and_slowed_by_true_ones() -> None:
    job = TraceJob("one", 0.0, num_gpus=4, duration=100.0, model="resnet50")
    true = SimulatedNodeSpeeds(np.array([1.0, 1.0, 1.0, 3.0]))
    wrong = LearnedSimulatedSpeeds(np.array([1.0, 1.0, 1.0, 0.5]))

    def jct(learned: LearnedSimulatedSpeeds | None) -> float:
        return float(simulate(Trace.of([job]), CLUSTER, rules("fastest_nodes", true, learned)).jct[0])

    assert jct(None) == 100.0
    assert jct(wrong) == pytest.approx(300.0)


def test_a_learned_sensitivity_is_that_of_a_model_with_so_many_gpus() -> None:
    learned = LearnedSimulatedSpeeds(SLOWNESS, {kind_of("resnet50", 4): 0.0})
    placement = replace(SimulatedPlacement.named("fastest_nodes"), learned_speeds=learned)
    assert placement.speed_needs("ResNet50", 4).sensitivity == 0.0
    assert placement.speed_needs("ResNet50", 2).sensitivity == 1.0
