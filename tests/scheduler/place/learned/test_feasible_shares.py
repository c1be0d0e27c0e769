"""Whatever is chosen among what is feasible, the job is placed as requested; and a job that fits is feasible."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.examples import examples
from tiresias.scheduler.model import Ints, Request
from tiresias.scheduler.place.learned.feasible_shares import FeasibleShares


def random_request(rng: np.random.Generator) -> Request:
    least = int(rng.integers(0, 4))
    most = 0 if rng.random() < 0.4 else least + int(rng.integers(0, 3))
    return Request(least, most, int(rng.integers(1, 5)) if rng.random() < 0.3 else 0)


def fits(request: Request, gpus: int, fit: Ints) -> bool:
    """Whether some shares of the nodes are what the request demands; by trying sets of nodes."""
    usable = np.flatnonzero(fit).tolist()
    for count in range(max(request.min_nodes, 1), min(request.max_nodes or len(usable), len(usable), gpus) + 1):
        for nodes in itertools.combinations(usable, count):
            if request.gpus_per_node:
                if count * request.gpus_per_node == gpus and all(fit[node] >= request.gpus_per_node for node in nodes):
                    return True
            elif sum(fit[list(nodes)]) >= gpus:
                return True
    return False


def check(request: Request, gpus: int, fit: Ints, placement: tuple[tuple[int, int], ...]) -> None:
    shares = dict(placement)
    assert sum(shares.values()) == gpus
    assert all(0 < share <= fit[node] for node, share in shares.items())
    assert request.min_nodes <= len(shares) <= (request.max_nodes or len(shares))
    assert not request.gpus_per_node or set(shares.values()) == {request.gpus_per_node}


def place_at_random(request: Request, gpus: int, fit: Ints, rng: np.random.Generator) -> tuple[int, bool]:
    """Place a job, each task on any feasible node; return the number of choices, and whether it fitted."""
    steps, shares = 0, FeasibleShares(request, gpus, fit)
    if not shares.possible_at_all():
        return 0, False
    while shares.left:
        possible = shares.possible(int(rng.integers(1, 4)))
        node = int(rng.choice(np.flatnonzero(possible > 0)))
        shares.give(node, int(possible[node]))
        steps += 1
    check(request, gpus, fit, shares.placement())
    return steps, True


@pytest.mark.parametrize("seed", range(4))
def test_random_choices_among_the_feasible_ones_place_the_job(seed: int) -> None:
    rng, steps = np.random.default_rng(seed), 0
    for _ in range(examples(4000)):
        fit = rng.integers(0, 9, int(rng.integers(1, 12)))
        steps += place_at_random(random_request(rng), int(rng.integers(1, 24)), fit, rng)[0]
    assert steps > examples(4000)


@pytest.mark.long
def test_choices_in_100_000_random_states_are_feasible() -> None:
    rng, steps = np.random.default_rng(99), 0
    while steps < 100_000:
        fit = rng.integers(0, 9, int(rng.integers(1, 40)))
        steps += place_at_random(random_request(rng), int(rng.integers(1, 64)), fit, rng)[0]


def test_a_job_that_fits_is_feasible_and_no_other() -> None:
    rng = np.random.default_rng(5)
    found = set()
    for _ in range(examples(3000)):
        fit, gpus, request = rng.integers(0, 5, int(rng.integers(1, 7))), int(rng.integers(1, 14)), random_request(rng)
        expected = fits(request, gpus, fit)
        assert FeasibleShares(request, gpus, fit).possible_at_all() == expected, (request, gpus, fit)
        found.add(expected)
    assert found == {True, False}
