"""The scores of a network with written terms are minus the sum of these terms, computed one by one from the features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.simulator.learning.learners import CLUSTERS, environment, weights_for
from tiresias.scheduler.place.learned.placement_agents import AgentStep
from tiresias.scheduler.place.learned.task_observation import FEATURES
from tiresias.simulator.learning.placement_episode import PlacementEpisode
from tiresias.simulator.learning.score_terms import ESTIMATED_COSTS, SCORE_UNIT, STARTS, TERMS, heads


def of_server(one: dict[str, float], is_first: bool) -> dict[str, float]:
    """The terms of a server."""
    beyond, crossed = round(8 * one["left_over"]), one["is_crossed"] > 0.0
    is_whole = beyond >= 0
    return {
        "estimated_cost": one["estimated_cost"],
        "tightest": max(beyond, 0) + 8 * one["partner_left_over"],
        "split": (0 if is_whole else 1) + (one["partner_left_over"] == 1.0),
        "shared_links": (crossed and not (is_whole and is_first)) + one["partner_is_crossed"],
        "unused_links": crossed and is_whole and is_first,
    }


def of_partition(one: dict[str, float], is_first: bool) -> dict[str, float]:
    """The terms of a partition."""
    beyond, fewest = round(8 * one["left_over"]), round(8 * one["fewest_servers"])
    more = min(round(8 * one["uncrossed_fewest_servers"]) - fewest, 2)
    further = min(round(8 * (one["uncrossed_tightest"] - one["tightest"])), 1)
    return {
        "estimated_cost": one["estimated_cost"],
        "tightest": 8 * one["tightest"] - (0 if beyond >= 0 else 8),
        "split": fewest - 1,
        "shared_links": 0 if fewest == 1 and is_first else max(more, 0),
        "unused_links": max(further, 0) if is_first else 0,
    }


def steps_of(cluster: str, coefficients: Mapping[str, float]) -> list[AgentStep]:
    """What the agents of a network with these terms select from; its other parameters are not 0."""
    weights = weights_for(cluster)
    parameters = {name: value.copy() for name, value in weights.parameters.items()}
    for head, neurons in heads(weights.sizes, coefficients).items():
        count = len(neurons.bias)
        parameters[f"{head}.weight"][:, :count], parameters[f"{head}.bias"][:count] = neurons.weight, neurons.bias
        parameters[f"{head}.out"][:] = 0.0
        parameters[f"{head}.out"][:count] = neurons.out
    found = replace(weights, parameters=parameters)
    return [step for job in PlacementEpisode(environment(cluster)).play(found, 6).jobs for step in job.steps]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_are_minus_the_sum_of_the_terms(cluster: str, seed: int) -> None:
    coefficients = dict(zip(TERMS, np.random.default_rng(seed).normal(size=len(TERMS)).tolist(), strict=True))
    compared = 0
    for step in steps_of(cluster, coefficients):
        is_first = step.task[0, FEATURES["task"].index("nodes_used")] == 0.0
        for kind, features, naive, first in (
            ("choice", step.choice, of_server, 0), ("reach", step.reach, of_partition, len(step.choice)),
        ):  # fmt: skip
            for at, row in enumerate([] if features is None else features.tolist()):
                if step.allowed[first + at]:
                    terms = naive(dict(zip(FEATURES[kind], row, strict=True)), is_first)
                    expected = -sum(coefficients[name] * value for name, value in terms.items()) / SCORE_UNIT
                    assert step.scores[first + at] == pytest.approx(expected, rel=1e-4, abs=0.02)
                    compared += 1
    assert compared


def test_the_start_with_the_tightest_servers_selects_them() -> None:
    """Of servers that hold the job and whose links no other job uses, the one with the fewest GPUs left over has the best score."""
    left, crossed = (FEATURES["choice"].index(name) for name in ("left_over", "is_crossed"))
    compared = 0
    for step in steps_of("fat_tree:4", STARTS["tightest servers"]):
        holds = (step.choice[:, left] >= 0) & (step.choice[:, crossed] == 0)
        rows = np.flatnonzero(step.allowed[: len(step.choice)] & holds)
        if len({*step.choice[rows, left].tolist()}) > 1:
            compared += 1
            assert step.choice[rows[step.scores[rows].argmax()], left] == step.choice[rows, left].min()
    assert compared


def test_each_start_names_terms() -> None:
    assert all(set(named) <= set(TERMS) for named in STARTS.values())
    assert ESTIMATED_COSTS in STARTS
