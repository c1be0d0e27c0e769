"""Against trying all sets of nodes: the fewest that fit, and of those the least sum of costs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.model import ANYWHERE, Request
from tiresias.scheduler.place import consolidate, least_cost
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement

REQUESTS = st.builds(
    Request,
    min_nodes=st.integers(0, 4),
    max_nodes=st.integers(0, 4),
    gpus_per_node=st.sampled_from([0, 0, 0, 1, 2, 3]),
)
CASES = st.integers(1, 7).flatmap(
    lambda nodes: st.tuples(
        st.lists(st.integers(0, 5), min_size=nodes, max_size=nodes),
        st.lists(st.sampled_from([0.0, 0.02, 0.1, 0.3, 1.0]), min_size=nodes, max_size=nodes),
        st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes),
    )
)


def candidates(fit: list[int], leaves: list[int]) -> CandidateNodes:
    return CandidateNodes(np.array(fit, np.int64), [np.array(leaves, np.int64), np.zeros(len(fit), np.int64)])


def least(fit: list[int], cost: list[float], gpus: int, request: Request) -> tuple[int, float] | None:
    """The number of nodes and the sum of their costs."""
    each, usable = request.gpus_per_node, [node for node, free in enumerate(fit) if free]
    for count in range(max(request.min_nodes, 1), min(request.max_nodes or len(fit), gpus) + 1):
        sums = [
            sum(cost[node] for node in nodes)
            for nodes in combinations(usable, count)
            if (all(fit[node] >= each for node in nodes) and each * count == gpus)
            or (not each and sum(fit[node] for node in nodes) >= gpus)
        ]
        if sums:
            return count, min(sums)
    return None


def assert_feasible(found: Placement, fit: list[int], gpus: int, request: Request) -> None:
    shares = dict(found)
    assert len(shares) == len(found)
    assert list(found) == sorted(found)
    assert sum(shares.values()) == gpus
    assert all(0 < share <= fit[node] for node, share in shares.items())
    assert request.min_nodes <= len(shares) <= (request.max_nodes or len(shares))
    assert not request.gpus_per_node or set(shares.values()) == {request.gpus_per_node}


@settings(max_examples=examples(400), deadline=None)
@given(CASES, st.integers(1, 20), REQUESTS)
def test_it_is_the_least_sum_on_the_fewest_nodes(
    case: tuple[list[int], list[float], list[int]], gpus: int, request: Request
) -> None:
    fit, cost, leaves = case
    found = least_cost.cheapest(request, gpus, candidates(fit, leaves), np.array(cost))
    expected = least(fit, cost, gpus, request)
    assert (found is None) == (expected is None)
    if found and expected:
        assert_feasible(found, fit, gpus, request)
        assert len(found) == expected[0]
        assert sum(cost[node] for node, _ in found) == pytest.approx(expected[1])


@settings(max_examples=examples(200), deadline=None)
@given(CASES, st.integers(1, 20), st.floats(0.0, 2.0))
def test_equal_costs_mean_the_nodes_of_consolidate(
    case: tuple[list[int], list[float], list[int]], gpus: int, cost: float
) -> None:
    fit, _, leaves = case
    found = least_cost.cheapest(ANYWHERE, gpus, candidates(fit, leaves), np.full(len(fit), cost))
    one = candidates(fit, leaves).tightest(gpus)
    assert found == (consolidate.uneven(ANYWHERE, gpus, candidates(fit, leaves)) if one is None else ((one, gpus),))


def test_ties_are_broken_by_leaf_and_by_free_gpus() -> None:
    on_two_leaves = candidates([4, 4, 4, 4, 2], [0, 1, 0, 1, 0])
    assert least_cost.cheapest(ANYWHERE, 8, on_two_leaves, np.array([0.5, 0, 0, 0, 0])) == ((1, 4), (3, 4))
    assert least_cost.cheapest(ANYWHERE, 2, on_two_leaves, np.array([0, 0, 0, 0, 0.5])) == ((0, 2),)
    assert least_cost.cheapest(ANYWHERE, 2, on_two_leaves, np.array([0.5, 0, 0.5, 0, 0])) == ((4, 2),)


def test_a_table_that_would_be_too_large_is_not_filled() -> None:
    """1,000 nodes at least, of which the cheap ones have too few GPUs."""
    fit, cost = np.repeat([8, 1], [1000, 1000]), np.repeat([1.0, 0.0], [1000, 1000])
    nodes = CandidateNodes(fit, [np.zeros(2000, np.int64)])
    request = Request(min_nodes=1000)
    assert least_cost.cheapest(request, 2000, nodes, cost) == consolidate.uneven(request, 2000, nodes)
