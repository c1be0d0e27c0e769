"""The nodes on which runs fail: made-up runs whose failures are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.failing_nodes import HALF_LIFE_S, FailingNodes, NodeRuns, failing_nodes

NODES, KINDS, USERS = 20, 40, 10


def runs(seed: int, broken: int | None = None, count: int = 600, rates: float = 0.05) -> NodeRuns:
    """Return runs on random nodes; on the broken one four of five fail. Kinds belong to users; the first kind always fails."""
    dice = np.random.default_rng(seed)
    kind, node = dice.integers(0, KINDS, count), dice.integers(0, NODES, count)
    chance = np.where(kind == 0, 1.0, rates)
    chance = np.where(node == broken, np.maximum(chance, 0.8), chance)
    return NodeRuns(node, kind, kind % USERS, dice.random(count) < chance, dice.random(count) * HALF_LIFE_S)


def found(given: NodeRuns) -> list[int]:
    return [int(node) for node in np.flatnonzero(failing_nodes(given, NODES).fails)]


@given(seed=st.integers(0, 10**6), broken=st.integers(0, NODES - 1))
def test_the_broken_node_is_found(seed: int, broken: int) -> None:
    assert broken in found(runs(seed, broken))


def test_healthy_nodes_are_rarely_blamed() -> None:
    """Of 200 clusters of 20 nodes, with a script that always fails, on rates of failures from 0 to 40%."""
    blamed = sum(len(found(runs(seed, rates=seed % 5 / 10))) for seed in range(200))
    assert blamed <= 200 * NODES * 0.005


@given(seed=st.integers(0, 10**6), node=st.integers(0, NODES - 1))
def test_one_user_cannot_make_others_avoid_a_node(seed: int, node: int) -> None:
    healthy = runs(seed, rates=0.0)
    more = 500
    hostile = NodeRuns(
        np.full(more, node), np.arange(KINDS, KINDS + more), np.full(more, USERS), np.ones(more, bool), np.zeros(more)
    )
    own = healthy.kind > 0  # without the script that always fails
    both = NodeRuns(*(np.concatenate([one[own], two]) for one, two in zip(healthy, hostile, strict=True)))
    assert found(both) == []


def test_the_evidence_decays() -> None:
    now = runs(1, broken=3)
    old = now._replace(age=now.age + 10 * HALF_LIFE_S)
    assert found(now) == [3]
    assert found(old) == []


def test_without_runs_no_node_fails() -> None:
    nothing = np.zeros(0, np.int64)
    result = failing_nodes(NodeRuns(nothing, nothing, nothing, np.zeros(0, bool), np.zeros(0)), 3)
    assert isinstance(result, FailingNodes)
    assert result.fails.tolist() == [False] * 3


@pytest.mark.parametrize("users", [1, 2])
def test_few_runs_suffice_if_all_of_several_users_fail(users: int) -> None:
    """Five runs there, of jobs that ran elsewhere before."""
    there, elsewhere = 5, 60
    kind = np.concatenate([np.arange(there), np.arange(elsewhere) % there])
    node = np.concatenate([np.zeros(there, np.int64), 1 + np.arange(elsewhere) % (NODES - 1)])
    failed = np.arange(there + elsewhere) < there
    assert found(NodeRuns(node, kind, kind % users, failed, np.zeros(there + elsewhere))) == ([0] if users > 1 else [])
