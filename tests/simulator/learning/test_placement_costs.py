"""The search that the network imitates: what it examines changes nothing, and its costs are those of naive loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.learning.learners import CLUSTERS, environment, weights_for
from tiresias.scheduler.model import ANYWHERE
from tiresias.scheduler.place.learned.feasible_shares import FeasibleShares
from tiresias.scheduler.place.learned.partners import FREE_GPU_COST
from tiresias.scheduler.place.learned.placement_agents import AgentStep
from tiresias.simulator.learning.placement_costs import PlacementCosts, parts_of
from tiresias.simulator.learning.placement_episode import PlacementEpisode
from tiresias.simulator.learning.training_plan import SEARCH


def step_of(agent: int, allowed: np.ndarray) -> AgentStep:
    nothing = np.zeros((1, 1), np.float32)
    return AgentStep(agent, nothing, None, nothing, allowed, np.zeros(len(allowed)))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_cost_of_a_server_is_that_of_its_best_partner(cluster: str) -> None:
    env, compared = environment(cluster), 0
    graphs = weights_for(cluster).graphs(CLUSTERS[cluster].topology())
    env.reset(4)
    while not env.done:
        view = env.observe()
        free = view.free.sum(1)
        costs = PlacementCosts(env, graphs)
        for agent, part in enumerate(graphs.parts):
            allowed = np.concatenate([free[part.servers] > 0, np.zeros(len(graphs.parts), bool)])
            found = costs.of_actions(step_of(agent, allowed), FeasibleShares(ANYWHERE, view.gpus, free))
            assert np.isinf(found[~allowed]).all()
            for at, node in enumerate(part.servers.tolist()):
                if free[node] >= view.gpus:
                    excess = env.excess_of(parts_of(view, ((node, view.gpus),)))
                    assert found[at] == pytest.approx(excess + FREE_GPU_COST * (free[node] - view.gpus))
                    compared += 1
        env.step(int(view.free.argmax()))
    assert compared >= 5


def test_a_search_changes_nothing_in_the_environment() -> None:
    plain, examined = environment(), environment()
    plain.reset(3), examined.reset(3)
    while not plain.done:
        view = plain.observe()
        if view.free.sum(1).max() >= view.gpus and not view.placed.any():
            node = int(view.free.sum(1).argmax())
            examined.excess_of(parts_of(view, ((node, view.gpus),)))
        group = int(view.free.argmax())
        assert plain.step(group) == examined.step(group)
    assert plain.outcome().jct.tolist() == examined.outcome().jct.tolist()


def test_the_regret_of_a_search_is_0_where_the_cost_is_least() -> None:
    weights = weights_for("fat_tree:4")
    jobs = PlacementEpisode(environment()).play(weights, 4, teacher=SEARCH).jobs
    for job in jobs:
        for step, action, regret in zip(job.steps, job.actions, job.regrets, strict=True):
            assert regret.shape == step.allowed.shape
            assert regret[action] == regret.min() == 0.0
            assert (regret[~step.allowed] == 1.0).all()
    corrected = PlacementEpisode(environment()).play(weights, 4, teacher=SEARCH, is_corrected=True)
    assert corrected.jct.tolist() == PlacementEpisode(environment()).play(weights, 4).jct.tolist()


def test_a_search_has_lower_completion_times_than_a_balanced_load() -> None:
    episode, weights = PlacementEpisode(environment(jobs=30)), weights_for("fat_tree:4")
    means = {
        teacher: np.mean([episode.play(weights, seed, teacher=teacher).jct.mean() for seed in (1, 2)])
        for teacher in (SEARCH, "load_balancing")
    }
    assert means[SEARCH] < means["load_balancing"]
