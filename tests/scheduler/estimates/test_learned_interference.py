"""Tables of interference from runs that shared nodes: planted slowdowns are found, noise alone is no interference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiresias.scheduler.estimates.co_located_runs import CoRunSample, NodeRun, co_run_samples
from tiresias.scheduler.estimates.learned_interference import MOST_KINDS, LearnedInterference, learning

KINDS = ("u1.loader 2", "u1.matrix 2", "u2.small 2")
ALONE = (0.4, 0.1, 0.02)  # seconds a step
PLANTED = np.array([[1.6, 1.3, 1.02], [1.05, 1.02, 1.0], [1.4, 1.2, 1.0]])


def runs_of(slowdown: np.ndarray, noise: float, seed: int, hours: int = 150) -> list[NodeRun]:
    """In each hour one job alone on a node and two beside each other on another one."""
    rng, found = np.random.default_rng(seed), []
    for hour in range(hours):
        start = 3600.0 * hour
        for node, kinds in (("n1", rng.integers(0, 3, 1)), ("n2", rng.integers(0, 3, 2))):
            for at, kind in enumerate(kinds.tolist()):
                others = [other for place, other in enumerate(kinds.tolist()) if place != at]
                factor = np.prod([slowdown[kind, other] for other in others]) * math.exp(rng.normal(0.0, noise))
                found.append(NodeRun(KINDS[kind], 2, (node,), start, start + 3500.0, ALONE[kind] * float(factor)))
    return found


def learned(runs: list[NodeRun], since: float = 0.0) -> LearnedInterference:
    *parts, found = learning(co_run_samples(runs, since))
    assert not any(parts)
    assert found
    return found


def test_planted_slowdowns_are_found() -> None:
    found = learned(runs_of(PLANTED, 0.03, 1))
    assert found.table
    assert found.table.kinds == KINDS
    assert np.abs(found.table.slowdown / PLANTED - 1.0).max() < 0.05
    assert found.error < 0.5 * found.error_without


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_interference(seed: int) -> None:
    found = learned(runs_of(np.ones((3, 3)), 0.1, seed))
    assert found.table is None
    assert found.samples > 100


def test_absurd_times_are_no_samples() -> None:
    sound = runs_of(PLANTED, 0.0, 1, 20)
    absurd = [
        run._replace(seconds=seconds)
        for run in sound
        for seconds in (0.0, -1.0, math.inf, -math.inf, math.nan, 1e300, 1e-300)
    ]
    apart = [run._replace(nodes=tuple(f"{node}x" for node in run.nodes)) for run in absurd]
    backwards = [run._replace(start=run.end, end=run.start) for run in sound]
    assert co_run_samples([*sound, *apart, *backwards], 0.0) == co_run_samples(sound, 0.0)
    assert learned(absurd).table is None


def test_what_a_run_shows() -> None:
    alone = [NodeRun("a", 2, ("n1", "n2"), 100.0 * at, 100.0 * at + 90.0, 1.0 + at) for at in range(3)]
    slow = NodeRun("a", 2, ("n1", "n2"), 1000.0, 1100.0, 3.0)
    half = NodeRun("b", 1, ("n2",), 1050.0, 2000.0, math.nan)
    assert co_run_samples([*alone, slow, half], 0.0) == [CoRunSample("a", "b", 0.5, 1.5)]
    on_both = half._replace(nodes=("n1", "n2"))
    assert co_run_samples([*alone, slow, on_both], 0.0) == [CoRunSample("a", "b", 0.5, 1.5)]
    assert co_run_samples([*alone, slow, half._replace(kind="")], 0.0) == []  # of an unknown kind
    assert co_run_samples([*alone, slow, half, half._replace(kind="c")], 0.0) == []  # of two kinds
    assert (
        co_run_samples([*alone, slow, half._replace(start=1090.0)], 0.0) == []
    )  # at the same time for a tenth of its time
    assert co_run_samples([*alone, slow, half], 1.0) == [
        CoRunSample("a", "b", 0.5, 1.2)
    ]  # the first one may not have been alone
    assert co_run_samples([alone[0], slow, half], 0.0) == []  # one run alone is too few
    assert co_run_samples([*alone, slow._replace(gpus=4), half], 0.0) == []  # none of its size


def test_the_kinds_of_one_owner_do_not_displace_those_of_others() -> None:
    own = [CoRunSample(f"u1.{at}", f"u1.{at}", 1.0, 1.5) for at in range(30) for _ in range(20)]
    other = [CoRunSample("u2.a", "u2.a", 1.0, 1.5)] * 5
    *_, found = learning([*own, *other])
    assert found
    assert found.table
    assert "u2.a" in found.table.kinds
    assert len(found.table.kinds) == MOST_KINDS


def test_few_samples_show_nothing() -> None:
    found = learned(runs_of(PLANTED, 0.0, 1, 6))
    assert (found.table, math.isnan(found.error)) == (None, True)
