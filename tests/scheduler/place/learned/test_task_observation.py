"""What the agents observe of partitions is what a naive loop over their servers finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.place.learned.networks import random_graphs
from tiresias.scheduler.model import ANYWHERE
from tiresias.scheduler.place.learned.feasible_shares import FeasibleShares
from tiresias.scheduler.place.learned.task_observation import ESTIMATED_COST, FEATURES, JobTerms, TaskObservation


def naive(free: list[int], left: int) -> list[float]:
    fitting = [each - left for each in free if each >= left]
    fewest, held = 0, 0
    for each in sorted(free, reverse=True):
        if held < left:
            fewest, held = fewest + 1, held + each
    return [
        max(min((max(free) - left) / 8, 1.0), -1.0),
        min(min(fitting) / 8, 1.0) if fitting else 1.0,
        min(fewest / 8, 1.0) if held >= left else 1.0,
    ]


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40))
def test_a_partition_shows_where_the_rest_of_a_job_fits(seed: int, gpus: int) -> None:
    rng = np.random.default_rng(seed)
    graphs = random_graphs(rng)
    fit = rng.integers(0, 9, len(graphs.partition))
    nothing = np.zeros(len(fit))
    shares = FeasibleShares(ANYWHERE, gpus, fit)
    for node in np.flatnonzero(fit)[:2]:
        if shares.left > 1:
            shares.give(int(node), 1)
    terms = JobTerms(ANYWHERE, gpus, nothing, nothing, np.ones(3))
    load = rng.integers(0, 2, len(fit)).astype(np.float32)
    seen = TaskObservation(graphs, terms, shares, fit, 1, load).reach()
    names = ("left_over", "tightest", "fewest_servers")
    columns = [FEATURES["reach"].index(name) for name in names]
    uncrossed = [FEATURES["reach"].index(f"uncrossed_{name}") for name in names]
    for at, part in enumerate(graphs.parts):
        free = (fit - shares.shares)[part.servers]
        assert np.allclose(seen[at, columns], naive(free.tolist(), shares.left))
        assert np.allclose(seen[at, uncrossed], naive((free * (load[part.servers] == 0)).tolist(), shares.left))


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 20), st.booleans())
def test_the_estimated_cost_is_that_of_a_naive_loop_over_partners(seed: int, gpus: int, is_begun: bool) -> None:
    rng = np.random.default_rng(seed)
    graphs = random_graphs(rng)
    nodes = len(graphs.partition)
    fit, own, load = rng.integers(0, 9, nodes), rng.random(nodes), rng.integers(0, 2, nodes).astype(np.float32)
    shares = FeasibleShares(ANYWHERE, gpus, fit)
    if is_begun and gpus > 1 and fit.any():
        shares.give(int(fit.argmax()), 1)
    terms = JobTerms(ANYWHERE, gpus, own, np.zeros(nodes), np.ones(3))
    observed = TaskObservation(graphs, terms, shares, fit, shares.left, load)
    seen = observed.choice(np.arange(nodes))[:, FEATURES["choice"].index(ESTIMATED_COST)]
    free, left = fit - shares.shares, shares.left
    for node in range(nodes):
        lacking, below = max(left - free[node], 0), np.flatnonzero(graphs.leaf == graphs.leaf[node])
        cost = own[node] + 0.25 * max(free[node] - left, 0) + 0.75 * load[node] * bool(lacking or shares.used)
        if shares.used:
            cost += 1.5 * (not shares.shares[below].any())
        others = [each for each in below if each != node and free[each] >= lacking]
        partners = [own[each] + 0.25 * (free[each] - lacking) + 0.75 * load[each] for each in others]
        cost += 0 if not lacking else min(partners, default=4 + lacking / left)
        cost = cost if free[node] else 8.0
        assert np.isclose(seen[node], min(cost, 8.0), atol=1e-5)
    by_partition = observed.reach()[:, FEATURES["reach"].index(ESTIMATED_COST)]
    for at, part in enumerate(graphs.parts):
        feasible = [seen[node] for node in part.servers if observed.possible[node]]
        assert np.isclose(by_partition[at], min(feasible, default=8.0))
