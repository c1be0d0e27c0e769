"""An episode ends as the simulation with the same placements does, so what is learned is what `tiresias simulate` measures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.simulator.learning.learners import CLUSTERS, environment, weights_for
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.place.learned.weights_file import PlacementWeights
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import Outcome, PlacementWorkload, Rules, SimulatedContention, simulate
from tiresias.simulator.contention.simulated_contention import DEFAULT_INTERFERENCE
from tiresias.simulator.learning.placement_episode import PlacementEpisode
from tiresias.simulator.simulated_placement import SimulatedPlacement


def simulated(cluster: str, seed: int, style: str, trained: PlacementWeights | None = None) -> Outcome:
    placement = replace(SimulatedPlacement.named(style), trained=trained)
    rules = Rules(
        POLICIES["fifo"],
        PolicyConfig(name="fifo"),
        by_node=True,
        placement=placement,
        contention=SimulatedContention(DEFAULT_INTERFERENCE),
    )
    size = CLUSTERS[cluster]
    return simulate(PlacementWorkload(jobs=20, load=1.0).trace(seed, size.gpus), size, rules)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("style", ["consolidate", "tetris", "load_balancing", "least_interference"])
def test_in_a_style_it_ends_as_the_simulation_in_that_style(cluster: str, style: str) -> None:
    played = PlacementEpisode(environment(cluster)).play(weights_for(cluster), 5, teacher=style)
    assert played.jct == pytest.approx(simulated(cluster, 5, style).jct)


def test_a_corrected_episode_is_that_of_the_network_with_the_actions_of_the_style() -> None:
    weights, episode = weights_for("fat_tree:4"), PlacementEpisode(environment())
    own, corrected = episode.play(weights, 7), episode.play(weights, 7, teacher="consolidate", is_corrected=True)
    assert corrected.jct.tolist() == own.jct.tolist()
    assert [job.cost for job in corrected.jobs] == [job.cost for job in own.jobs]
    assert [job.actions for job in corrected.jobs] != [job.actions for job in own.jobs]
    assert all(
        step.allowed[action] for job in corrected.jobs for step, action in zip(job.steps, job.actions, strict=True)
    )


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("level", ["leaf", "cluster"])
def test_by_the_network_it_ends_as_the_simulation_with_its_weights(cluster: str, level: str) -> None:
    weights = weights_for(cluster, 3, level)
    played = PlacementEpisode(environment(cluster)).play(weights, 7)
    assert played.jct == pytest.approx(simulated(cluster, 7, "learned", weights).jct)


def test_each_job_is_a_sample_with_feasible_actions() -> None:
    env = environment(jobs=30)
    played = PlacementEpisode(env).play(weights_for("fat_tree:4"), 2)
    assert len(played.jobs) == len(env.trace) == len(played.jct)
    assert all(step.allowed[action] for job in played.jobs for step, action in zip(job.steps, job.actions, strict=True))
    partitions = len(weights_for("fat_tree:4").graphs(CLUSTERS["fat_tree:4"].topology()).parts)
    tasks = [
        sum(action < len(step.allowed) - partitions for step, action in zip(job.steps, job.actions, strict=True))
        for job in played.jobs
    ]
    assert sorted(tasks) == sorted(env.trace.gpus.tolist())
    costs = np.array([job.cost for job in played.jobs])
    assert np.isfinite(costs).all()
    assert costs.min() >= -1e-9
    assert costs.max() > 0.0
