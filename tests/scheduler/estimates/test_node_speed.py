"""Speeds of nodes from runs: planted ones are found, noise alone shows none, hostile times change nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.estimates.planted_speeds import NOW, learned, planted_runs
from tiresias.scheduler.estimates.learned_node_speeds import LEAST_RUNS, SLOW
from tiresias.scheduler.estimates.node_speed import HALF_LIFE_S
from tiresias.scheduler.estimates.speed_samples import MOST_NODES, speed_samples

EIGHT = (1.0, 1.02, 0.98, 1.5, 1.0, 1.0, 0.9, 1.0)


@pytest.mark.parametrize("most_nodes", [1, 4])
@settings(max_examples=examples(10), deadline=None)
@given(
    st.lists(st.floats(0.96, 1.03), min_size=5, max_size=10), st.integers(0, 4), st.floats(1.3, 3.0), st.integers(0, 99)
)
def test_planted_speeds_are_found(most_nodes: int, others: list[float], at: int, slow: float, seed: int) -> None:
    """Of gangs it is known how slow the slowest node is; a fast node among slower ones shows less than that."""
    slowness = [*others[:at], slow, *others[at:]]
    found = learned(planted_runs(slowness, seed, 25 * len(slowness), most_nodes=most_nodes))
    assert list(found.slow) == [f"n{at + 1:02}"]
    middle = median(slowness)
    for node, one in enumerate(slowness):
        speed = found.nodes[f"n{node + 1:02}"]
        if most_nodes == 1 or node == at:
            assert speed.slowness == pytest.approx(one / middle, rel=0.06)
        assert speed.least <= speed.slowness


def test_noise_alone_shows_no_speeds() -> None:
    used = [learned(planted_runs([1.0] * 8, seed, 60, most_nodes=2)).nodes for seed in range(20)]
    assert sum(map(bool, used)) <= 1
    assert not any(learned(planted_runs([1.0] * 8, seed, 60, noise=0.3)).slow for seed in range(5))


@settings(max_examples=examples(10), deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 99))
def test_the_order_of_runs_does_not_matter(random: Random, seed: int) -> None:
    runs = planted_runs(EIGHT, seed, 60, most_nodes=3)
    shuffled = runs.copy()
    random.shuffle(shuffled)
    shuffled = [run._replace(nodes=run.nodes[::-1]) for run in shuffled]
    assert learned(shuffled) == learned(runs)


def test_kinds_that_no_node_slows_are_recognised() -> None:
    found = learned(planted_runs(EIGHT, 5, 400, sensitivity=(1.0, 1.0, 0.0)))
    assert found.sensitivity == {"u1.kind0": 1.0, "u1.kind1": 1.0, "u1.kind2": 0.0}
    assert found.nodes["n04"].slowness == pytest.approx(1.5, rel=0.05)
    half = learned(planted_runs((1.0, 2.0, 1.0, 1.0), 5, 400, sensitivity=(1.0, 0.5, 0.0)))
    assert half.sensitivity == {"u1.kind0": 1.0, "u1.kind1": 0.5, "u1.kind2": 0.0}


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_steady_kinds_that_no_node_slows_do_not_hide_slow_nodes(noise: float) -> None:
    """Before their sensitivity is chosen, their runs show nodes to be equal, with the least noise."""
    slowness = [2.0, 1.8, *np.random.default_rng(1).uniform(0.95, 1.05, 14).tolist()]
    for seed in range(5):
        found = learned(planted_runs(slowness, seed, 400, noise, most_nodes=4, sensitivity=(1.0, 1.0, 0.0, 0.0)))
        assert list(found.slow) == ["n01", "n02"], seed
        assert found.sensitivity == {"u1.kind0": 1.0, "u1.kind1": 1.0, "u1.kind2": 0.0, "u1.kind3": 0.0}


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan, 1e300, 1e-300])
def test_hostile_times_change_nothing(seconds: float) -> None:
    runs = planted_runs(EIGHT, 1)
    hostile = [run._replace(seconds=seconds, job=f"hostile {at}") for at, run in enumerate(runs)]
    hostile = [run._replace(start=run.start + NOW, end=run.end + NOW) for run in hostile]
    assert speed_samples(runs + hostile, 0.0) == speed_samples(runs, 0.0)


def test_a_few_absurd_times_change_little() -> None:
    runs = planted_runs(EIGHT, 2)
    absurd = [run._replace(seconds=1e5 if at % 2 else 1e-5) if at % 25 == 0 else run for at, run in enumerate(runs)]
    found = learned(absurd)
    assert list(found.slow) == ["n04"]
    assert found.nodes["n04"].slowness == pytest.approx(1.5, rel=0.06)


@dataclass(frozen=True)
class Few:
    """How many of the runs on the slow node there are, and of how many jobs."""

    runs: int
    jobs: int


@pytest.mark.parametrize(("few", "named"), [(Few(8, 8), True), (Few(8, 1), False), (Few(LEAST_RUNS - 1, 4), False)])
def test_a_node_is_slow_by_several_runs_of_several_jobs(few: Few, named: bool) -> None:
    runs = planted_runs([1.0] * 6, 3, 120)
    on_slow = [
        run._replace(nodes=("slow",), seconds=3.0 * run.seconds, job=f"slow {at % few.jobs}")
        for at, run in enumerate([run for run in runs if run.kind == "u1.kind0"][: few.runs])
    ]
    assert ("slow" in learned(runs + on_slow).slow) == named


@pytest.mark.parametrize("node", ["n01", "new"])
def test_no_user_alone_has_a_node_named(node: str) -> None:
    """Where others have runs: n01 has runs of others, too, the new node has not."""
    runs = planted_runs([1.0] * 6, 7, 240, users=2)
    own = [run for run in runs if run.kind == "u1.kind0"][:20]
    false = [
        run._replace(
            nodes=(node,), seconds=2.0 * run.seconds, job=f"false {run.job}", start=run.end + 5.0, end=run.end + 90.0
        )
        for run in own
    ]
    found = learned(runs + false)
    assert found.nodes[node].least > SLOW
    assert not found.slow
    assert list(learned(planted_runs(EIGHT, 3, users=2)).slow) == ["n04"]


def test_few_runs_on_a_node_are_shrunk_towards_one() -> None:
    runs = planted_runs(EIGHT, 4, noise=0.1)
    one = runs[0]._replace(nodes=("seen once",), seconds=runs[0].seconds * 1.1, job="seen once")
    speed = learned([*runs, one]).nodes["seen once"]
    assert 1.0 < speed.slowness < 1.1
    assert speed.least < SLOW


def test_a_repaired_node_is_no_longer_slow() -> None:
    before, after = planted_runs(EIGHT, 6), planted_runs([1.0] * 8, 7)
    later = 4 * HALF_LIFE_S
    moved = [run._replace(start=run.start + later, end=run.end + later, job=f"later {run.job}") for run in after]
    assert list(learned(before).slow) == ["n04"]
    assert not learned(before + moved, NOW + later).slow


def test_runs_are_compared_with_runs_that_had_as_many_jobs_beside_them() -> None:
    """All runs on n02 share it with another job, which slows them; n03 is like n01 alone and like n02 shared."""
    rng, runs = np.random.default_rng(8), []
    for at in range(300):
        node, start = 1 + at % 3, 1000.0 * at
        shared = node == 2 or (node == 3 and at % 2 == 0)
        seconds = (1.5 if shared else 1.0) * np.exp(rng.normal(0.0, 0.02))
        base = planted_runs([1.0], at, 1)[0]._replace(start=start, end=start + 900.0, nodes=(f"n{node:02}",), kind="a")
        runs.append(base._replace(seconds=float(seconds), job=f"own {at}"))
        if shared:
            runs.append(base._replace(seconds=math.nan, kind="b", job=f"other {at}"))
    assert not learned(runs).nodes


def test_too_few_runs_show_nothing() -> None:
    assert learned([]).samples == 0
    assert not learned(planted_runs(EIGHT, 1, 9)).nodes
    wide = planted_runs([1.0], 1, 1)[0]._replace(nodes=tuple(f"n{at}" for at in range(MOST_NODES + 1)))
    assert speed_samples([wide], 0.0) == []
    assert speed_samples(planted_runs(EIGHT, 1), NOW) == []
