"""The losses are those of a naive loop over the steps, everything follows from the seed, and imitation learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.simulator.learning.learners import CLUSTERS, environment, learner, weights_for
from tiresias.scheduler.place.learned.task_observation import ESTIMATED_COST, FEATURES
from tiresias.simulator.learning.placement_episode import PlacedJob, PlacementEpisode

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="module")
def played() -> list[PlacedJob]:
    return PlacementEpisode(environment()).play(weights_for("fat_tree:4"), 4).jobs


def log_probability(step: Any, action: int) -> float:
    scores = step.scores[step.allowed].astype(np.float64)
    return float(step.scores[action] - scores.max() - np.log(np.exp(scores - scores.max()).sum()))


def entropy(step: Any) -> float:
    logs = np.array([log_probability(step, action) for action in np.flatnonzero(step.allowed).tolist()])
    return float(-(np.exp(logs) * logs).sum())


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(-1.0, 50.0), min_size=1, max_size=40), st.floats(0.0, 0.99), st.floats(0.1, 20.0))
def test_returns_are_those_of_a_naive_loop(costs: list[float], discount: float, most: float) -> None:
    from tiresias.simulator.learning.actor_critic import LearningRates, returns_of

    found = returns_of(costs, LearningRates(discount=discount, most_cost=most))
    for at in range(len(costs)):
        naive = -sum(min(cost, most) * discount**later for later, cost in enumerate(costs[at:]))
        assert found[at] == pytest.approx(naive * (1.0 - discount), rel=1e-9, abs=1e-12)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.floats(-100.0, 100.0, width=32), min_size=1, max_size=30))
def test_advantages_are_standardized(values: list[float]) -> None:
    from tiresias.simulator.learning.actor_critic import standardized

    mean = sum(values) / len(values)
    deviation = (sum((each - mean) ** 2 for each in values) / len(values)) ** 0.5
    naive = [(each - mean) / (deviation + 1e-6) for each in values]
    assert standardized(torch.tensor(values, dtype=torch.float64)).tolist() == pytest.approx(naive, abs=1e-9)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("level", ["leaf", "cluster"])
def test_losses_are_those_of_a_naive_loop_over_the_scores_of_numpy(cluster: str, level: str) -> None:
    found, weights = learner(cluster, 2, level)
    jobs = PlacementEpisode(environment(cluster)).play(weights, 6).jobs
    losses = found.imitate(jobs)
    pairs = [pair for job in jobs for pair in zip(job.steps, job.actions, strict=True)]
    assert losses.actor == pytest.approx(np.mean([1.0 - np.exp(log_probability(*pair)) for pair in pairs]), abs=1e-4)
    assert losses.entropy == pytest.approx(np.mean([entropy(step) for step, _ in pairs]), abs=1e-4)


@pytest.mark.parametrize("level", ["leaf", "cluster"])
def test_a_network_begins_with_the_estimated_costs(level: str) -> None:
    from tiresias.simulator.learning.actor_critic import ActorCritic, LearningRates

    weights = weights_for("fat_tree:4", 1, level)
    learner = ActorCritic(weights.sizes, weights.graphs(CLUSTERS["fat_tree:4"].topology()), 1, LearningRates())
    jobs = PlacementEpisode(environment()).play(replace(weights, parameters=learner.weights()), 6).jobs
    for step in [step for job in jobs for step in job.steps]:
        costs = step.choice[:, FEATURES["choice"].index(ESTIMATED_COST)]
        assert step.scores[: len(costs)] == pytest.approx(-20.0 * costs, rel=1e-5, abs=1e-5)
        if step.reach is not None:
            costs_there = step.reach[:, FEATURES["reach"].index(ESTIMATED_COST)]
            assert step.scores[len(costs) :] == pytest.approx(-20.0 * costs_there, rel=1e-5, abs=1e-5)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.floats(-3.0, 3.0), st.floats(-5.0, 5.0)), min_size=1, max_size=20), st.floats(0.05, 0.9))
def test_the_loss_of_the_actor_is_that_of_a_naive_loop(steps: list[tuple[float, float]], most: float) -> None:
    from tiresias.simulator.learning.actor_critic import actor_loss

    found = 0.0
    for change, advantage in steps:
        ratio = float(np.exp(change))
        found -= min(ratio * advantage, min(max(ratio, 1.0 - most), 1.0 + most) * advantage) / len(steps)
    change, advantages = torch.tensor(steps, dtype=torch.float64).T
    assert float(actor_loss(change, advantages, most)) == pytest.approx(found, abs=1e-9)


def test_the_first_update_follows_the_advantages() -> None:
    """Its gradient is that of the paper's loss: minus the mean of advantage x logarithm of the probability."""
    from tiresias.simulator.learning.actor_critic import actor_loss

    logarithms = torch.tensor([-1.0, -0.2, -3.0], requires_grad=True)
    actor_loss(logarithms - logarithms.detach(), torch.tensor([2.0, -1.0, 0.5]), 0.2).backward()
    assert logarithms.grad is not None
    assert logarithms.grad.tolist() == pytest.approx([-2.0 / 3, 1.0 / 3, -0.5 / 3])


def test_the_critic_learns_the_returns(played: list[PlacedJob]) -> None:
    """A critic that estimates 0 has the mean square of the returns of the steps as its loss."""
    found, _ = learner()
    with torch.no_grad():
        found.parameters["critic.out"].zero_()
    losses = found.learn(played)
    returns = [
        (1.0 - 0.9) * -sum(min(job.cost, 10.0) * 0.9**later for later, job in enumerate(played[at:]))
        for at in range(len(played))
    ]
    values = np.array([returns[at] for at, job in enumerate(played) for _ in job.steps])
    assert losses.critic == pytest.approx(np.mean(values**2), rel=1e-4)
    again = [found.learn(played).critic for _ in range(30)]
    assert again[-1] < losses.critic


@pytest.fixture
def four_threads() -> Iterator[None]:
    """On a machine with one processor, too."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
def test_the_same_seed_gives_the_same_weights_twice(played: list[PlacedJob]) -> None:
    def trained(seed: int) -> dict[str, Any]:
        found, _ = learner(seed=seed)
        found.imitate(played)
        found.learn(played)
        weights: dict[str, Any] = found.weights()
        return weights

    first, again, other = trained(1), trained(1), trained(2)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_imitation_lowers_the_loss_on_a_fixed_set(played: list[PlacedJob]) -> None:
    shown = PlacementEpisode(environment()).play(weights_for("fat_tree:4"), 4, teacher="consolidate").jobs
    found, _ = learner(step=3e-3)
    losses = [found.imitate(shown) for _ in range(60)]
    assert losses[-1].actor < 0.7 * losses[0].actor
    assert losses[-1].critic < losses[0].critic


@pytest.mark.usefixtures("four_threads")
def test_a_restored_learner_goes_on_as_the_first_one(played: list[PlacedJob]) -> None:
    one, _ = learner()
    one.learn(played)
    other, _ = learner(seed=2)
    other.restore(one.state(), one.updates)
    one.learn(played)
    other.learn(played)
    assert all(np.array_equal(one.weights()[name], value) for name, value in other.weights().items())
