"""The learned PACKLIMIT: what it learns from the ten models of Table 6, and from noise."""

from __future__ import annotations

import math
from random import Random
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.lazily import imported
from tiresias.scheduler.model import Bools, Floats
from tiresias.scheduler.place import packlimit_classifier as packlimit
from tiresias.scheduler.place.packlimit_classifier import LEAST, MARGIN, PackLimit, learn
from tiresias.simulator.models import MODELS

optimize, stats = imported("scipy.optimize"), imported("scipy.stats")

Columns: TypeAlias = tuple[Floats, Floats, Floats]  # skew, communication share and slowdown of each job
History: TypeAlias = list[tuple[float, float, float]]

NAN, DEFAULT = math.nan, 0.4
SKEW = np.array([model.skew for model in MODELS.values()])
SPREAD = np.array([model.spread for model in MODELS.values()])
RHO = np.array([model.size / 1250 / model.iteration for model in MODELS.values()])  # on 10 Gbit/s

few = settings(max_examples=examples(60), deadline=None)
features = st.one_of(st.floats(0, 1), st.just(NAN), st.sampled_from([0.0, 1.0, -1.0, math.inf]))
shares = st.one_of(st.floats(0, 1e300), st.just(NAN), st.sampled_from([0.0, -1.0, math.inf]))
slowdowns = st.one_of(st.sampled_from([1.0, 1.6]), st.floats(0, 1e300), st.just(NAN), st.just(math.inf))
histories = st.lists(st.tuples(features, shares, slowdowns), max_size=40)


def noisy(rng: np.random.Generator, values: Floats) -> Floats:
    return values * (1 + 0.1 * rng.standard_normal(values.shape))


def observed(seed: int, jobs: int = 50) -> Columns:
    """Jobs of random models; all that is measured is a tenth off."""
    rng = np.random.default_rng(seed)
    of = rng.integers(0, len(MODELS), jobs)
    slowdown = noisy(rng, SPREAD[of]) / noisy(rng, np.ones(jobs))
    return np.clip(noisy(rng, SKEW[of]), 0, 1), np.where(rng.random(jobs) < 0.5, noisy(rng, RHO[of]), NAN), slowdown


def mistaken(rng: np.random.Generator, jobs: int = 50) -> Columns:
    """Times without noise, but a tenth of the jobs have the wrong label."""
    of = rng.integers(0, len(MODELS), jobs)
    slow = (SPREAD[of] > MARGIN) ^ (rng.random(jobs) < 0.1)
    return SKEW[of], np.full(jobs, NAN), np.where(slow, 1.6, 1.0)


def separates(limit: PackLimit) -> bool:
    answers = [limit.consolidates(*job) for job in zip(SKEW, RHO, strict=True)]
    return limit.tensors.used and answers == (SPREAD > MARGIN).tolist()


def test_the_ten_models_after_fifty_jobs() -> None:
    learned = [learn(*observed(seed), DEFAULT) for seed in range(100)]
    assert sum(map(separates, learned)) >= 98
    assert all(0.146 < one.limit < 0.61 for one in learned)


def test_the_ten_models_where_a_tenth_of_the_labels_is_wrong() -> None:
    learned = [learn(*mistaken(np.random.default_rng(seed)), DEFAULT) for seed in range(100)]
    assert sum(map(separates, learned)) >= 97


@pytest.mark.parametrize("jobs", [20, 50])
def test_the_default_stands_on_random_labels(jobs: int) -> None:
    alarms = 0
    for seed in range(200):
        skew, rho, slowdown = observed(seed, jobs)
        alarms += learn(skew, rho, np.random.default_rng(seed).permutation(slowdown), DEFAULT).tensors.used
    assert alarms <= 2, "1 in 100"


def test_contradictory_history_is_reported() -> None:
    limit = learn([0.1, 0.9] * 20, [1.0] * 40, [1.0, 1.6, 1.6, 1.0] * 10, DEFAULT)
    assert limit.limit == DEFAULT
    assert limit.consolidates(0.5)
    assert not limit.consolidates(0.3)
    assert limit.tensors.why.startswith("the default stands, as history contradicts itself: of 40 jobs")


def test_less_skew_is_never_the_reason_to_consolidate() -> None:
    """A contradictory history is not used."""
    limit = learn(np.linspace(0, 1, 60), np.full(60, NAN), np.where(np.linspace(0, 1, 60) < 0.5, 1.6, 1.0), DEFAULT)
    assert (limit.limit, limit.tensors.used, limit.tensors.skew) == (DEFAULT, False, 0.0)


@pytest.mark.parametrize(
    ("slow", "fast", "why"),
    [
        (0, 0, "0 of 0"),
        (30, 0, "30 of 30"),
        (0, 30, "0 of 30"),
        (LEAST - 1, 30, "4 of 34"),
    ],
)
def test_one_class_is_too_few(slow: int, fast: int, why: str) -> None:
    jobs = slow + fast
    limit = learn([0.9] * slow + [0.1] * fast, [NAN] * jobs, [1.6] * slow + [1.0] * fast, DEFAULT)
    assert (limit.limit, limit.tensors.used, limit.tensors.jobs) == (DEFAULT, False, jobs)
    assert math.isnan(limit.tensors.error)
    assert (
        f"{why} observed jobs are more than 20% slower on more nodes; 5 that are and 5 that are not"
        in limit.tensors.why
    )


def test_the_error_is_of_the_cross_validation() -> None:
    line = learn([0.1] * 30 + [0.9] * 20, [NAN] * 50, [1.6] * 3 + [1.0] * 27 + [1.6] * 20, DEFAULT).tensors
    assert (line.used, line.jobs, line.slowed, line.error) == (True, 50, 23, 3 / 50)
    assert line.why == "learned: of 50 jobs 3 are predicted wrongly, 23 with one prediction for all"


def test_traffic_decides_where_tensors_cannot_be_seen() -> None:
    rho = np.linspace(0, 2, 40)
    limit = learn([NAN] * 40, rho, np.where(rho > 0.8, 1.6, 1.0), DEFAULT)
    assert limit.traffic.used
    assert not limit.tensors.used
    assert [limit.consolidates(NAN, each) for each in (0.5, 1.1, math.inf, NAN)] == [False, True, True, None]
    assert limit.limit == DEFAULT


def test_traffic_and_skew_count_together() -> None:
    """Models with large tensors that are sent so seldom that nothing waits for them."""
    rng = np.random.default_rng(7)
    skew, rho = rng.random(300), rng.exponential(1.0, 300)
    limit = learn(skew, rho, np.where(skew + rho / (1 + rho) > 1, 1.6, 1.0), DEFAULT)
    assert limit.consolidates(0.6, 5.0)
    assert not limit.consolidates(0.6, 0.2)
    assert limit.limit == pytest.approx(1 - np.median(rho / (1 + rho)), abs=0.05)
    assert limit.consolidates(limit.limit + 0.01), "a job whose traffic is not known is an ordinary one"
    assert not limit.consolidates(limit.limit - 0.01)


@few
@given(histories, st.lists(st.floats(0, 1), min_size=2, max_size=8), shares)
def test_more_skew_never_spreads(history: History, skews: list[float], rho: float) -> None:
    limit = learn(*columns(history), DEFAULT)
    answers = [limit.consolidates(skew, rho) for skew in sorted(skews)]
    assert answers == sorted(answer for answer in answers if answer is not None)
    assert 0 <= limit.limit <= 1


@few
@given(histories, st.integers(0, 1000), st.randoms(use_true_random=False))
def test_the_order_of_rows_is_nothing(history: History, seed: int, random: Random) -> None:
    """Of any history with enough on either side to learn from."""
    history = [*history, *zip(*(column.tolist() for column in observed(seed)), strict=True)]
    shuffled = random.sample(history, len(history))
    assert repr(learn(*columns(history), DEFAULT)) == repr(learn(*columns(shuffled), DEFAULT)), "to the last bit"


def test_the_error_is_of_jobs_that_were_not_learned_from() -> None:
    """On labels drawn at random a line is right about half of those; of those that it was fitted to, about three of five."""
    errors = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        slowdown = rng.permutation(np.repeat([1.0, 1.6], 10))
        errors.append(learn(rng.random(20), rng.exponential(1.0, 20), slowdown, DEFAULT).tensors.error)
    assert np.mean(errors) > 0.47


@few
@given(histories)
def test_any_history_gives_an_answer(history: History) -> None:
    limit = learn(*columns(history), DEFAULT)
    for line in (limit.tensors, limit.traffic):
        assert all(map(math.isfinite, (line.constant, line.skew, line.traffic, line.typical)))
        assert min(line.skew, line.traffic) >= 0
        assert line.used <= (line.error < 0.5)
        assert line.slowed <= line.jobs <= len(history)


@pytest.mark.parametrize("times", [2, 10])
def test_duplicates_change_little(times: int) -> None:
    once = observed(3)
    limit = learn(*once, DEFAULT)
    skew, rho, slowdown = (np.tile(column, times) for column in once)
    again = learn(skew, rho, slowdown, DEFAULT)
    assert separates(again)
    assert again.limit == pytest.approx(limit.limit, abs=0.1)


def test_all_alike_is_no_reason() -> None:
    limit = learn([0.5] * 40, [1.0] * 40, [1.0, 1.6] * 20, DEFAULT)
    assert not limit.tensors.used


def columns(history: History) -> Columns:
    skew, rho, slowdown = np.array(history, dtype=float).reshape(-1, 3).T
    return skew, rho, slowdown


def test_the_weights_of_the_line_minimise_the_regularised_loss() -> None:
    """Against scipy's bounded minimiser, on overlapping classes, with a weight that the bound keeps at 0 among the cases."""
    dice = np.random.default_rng(5)
    for jobs in (12, 60):
        rows = np.stack((np.ones(jobs), dice.random(jobs), dice.random(jobs)), axis=1)
        slow = rows[:, 1] - 0.5 * rows[:, 2] + 0.3 * dice.standard_normal(jobs) > 0.3

        def loss(weights: Floats, rows: Floats = rows, slow: Bools = slow) -> float:
            margins = np.where(slow, 1.0, -1.0) * (rows @ weights)
            return float(np.log1p(np.exp(-margins)).sum() + (weights**2).sum() / (2 * packlimit.WIDTH**2))

        best = optimize.minimize(loss, np.zeros(3), method="L-BFGS-B", bounds=[(None, None), (0, None), (0, None)])
        assert packlimit._fit(rows, slow) == pytest.approx(best.x, abs=2e-3)


@pytest.mark.parametrize(
    ("both", "slow_only", "yes_only", "neither"), [(8, 2, 1, 9), (3, 3, 3, 3), (5, 0, 0, 5), (1, 6, 2, 4)]
)
def test_chance_is_fishers_exact_test(both: int, slow_only: int, yes_only: int, neither: int) -> None:
    slow = np.repeat([True, True, False, False], [both, slow_only, yes_only, neither])
    answers = np.repeat([True, False, True, False], [both, slow_only, yes_only, neither])
    expected = stats.fisher_exact([[both, slow_only], [yes_only, neither]], alternative="greater").pvalue
    assert packlimit._chance(slow, answers) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("constant", "skew", "limit"),
    [(-1.0, 0.0, 1.0), (1.0, 0.0, 0.0), (-0.25, 0.5, 0.5), (-1.0, 4.0, 0.25), (-5.0, 4.0, 1.0), (1.0, 4.0, 0.0)],
)
def test_the_limit_is_where_the_line_crosses_zero(constant: float, skew: float, limit: float) -> None:
    """Where skew does not matter, all jobs or none suffer."""
    line = packlimit.LinearBoundary(constant, skew, 0.0, 0.5, 20, 10, 0.0, True, "")
    assert packlimit.PackLimit(0.3, line, line).limit == limit
