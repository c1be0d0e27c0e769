from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared_data import shared_data
from tiresias.scheduler.estimates.loss_curve import LEAST_POINTS, LossCurve, converged, fit
from tiresias.scheduler.estimates.loss_families import FAMILIES, FamilyFit, fit_family
from tiresias.scheduler.estimates.loss_history import LossPoints
from tiresias.scheduler.estimates.loss_preprocessing import last_drop, without_outliers

PAPER = (0.21, 1.07, 0.07)  # figure 7
seeds = st.integers(0, 2**32)
NOISES = 200
STEPS = np.arange(500.0)


def paper_loss(steps: Any) -> Any:
    return 1.0 / (PAPER[0] * steps + PAPER[1]) + PAPER[2]


def noisy(losses: Any, seed: int, noise: float) -> Any:
    return losses * (1.0 + noise * np.random.default_rng(seed).normal(size=len(losses)))


def curve_of(steps: Any, losses: Any) -> LossCurve:
    curve = fit(LossPoints(np.asarray(steps, np.float64), np.asarray(losses, np.float64)))
    assert curve is not None
    return curve


@given(seeds)
def test_the_coefficients_of_the_paper(seed: int) -> None:
    """Within 2%, with noise of 0.5% on each of 500 losses."""
    fitted = fit_family("inverse", STEPS, noisy(paper_loss(STEPS), seed, 0.005))
    assert fitted.betas == pytest.approx(PAPER, rel=0.02)


def test_exact_coefficients_without_noise() -> None:
    assert fit_family("inverse", STEPS, paper_loss(STEPS)).betas == pytest.approx(PAPER, rel=2e-3)


def test_remaining_steps_of_the_paper_s_curve() -> None:
    """Half of the way to the loss at step 400 the law is right to 20% of the whole, and in the interval: for 99 of 100 noises."""
    right = 0
    for seed in range(NOISES):
        curve = curve_of(STEPS[:200], noisy(paper_loss(STEPS[:200]), seed, 0.005))
        left = curve.steps_to(float(paper_loss(400.0)))
        right += left.low <= 201 <= left.high and left.steps == pytest.approx(201, abs=80)
    assert right >= 0.99 * NOISES


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_each_family_finds_its_own_curve(family: str) -> None:
    true = FamilyFit(family, 0.0, 99.0, 99.0, {"inverse": 0.1, "power": 0.4, "exponential": 0.2}[family], 0.8, 0.1, 0.0)
    steps = np.arange(100.0)
    fitted = {name: fit_family(name, steps, true.loss(steps)) for name in FAMILIES}
    assert min(fitted, key=lambda name: fitted[name].error) == family
    assert fitted[family].loss(500.0) == pytest.approx(true.loss(500.0), rel=0.01)


@given(st.sampled_from(sorted(FAMILIES)), seeds)
def test_amplitude_and_floor_are_not_negative_and_steps_invert_losses(family: str, seed: int) -> None:
    chance = np.random.default_rng(seed)
    fitted = fit_family(family, np.cumsum(chance.integers(1, 9, 30)).astype(np.float64), chance.uniform(0, 1, 30))
    assert fitted.amplitude >= 0.0
    assert fitted.floor >= 0.0
    aim = fitted.floor + 0.5 * fitted.amplitude
    step = fitted.step_of(aim)
    if fitted.first < step < 1e12:
        assert fitted.loss(step) == pytest.approx(aim, rel=1e-6)


def test_no_shape_of_the_grid_is_better() -> None:
    """Against a direct search over shape, amplitude and floor."""
    losses = noisy(paper_loss(STEPS[:50]), 1, 0.05)
    fitted = fit_family("inverse", STEPS[:50], losses)
    for shape in np.geomspace(1e-3, 1e2, 60):
        columns = np.stack([1.0 / (1.0 + STEPS[:50] / 49.0 / shape), np.ones(50)], axis=1)
        found = np.maximum(np.linalg.lstsq(columns, losses, rcond=None)[0], 0.0)
        assert np.sqrt(((columns @ found - losses) ** 2).mean()) >= fitted.error - 1e-6


def test_outliers_are_replaced_by_the_mean_of_their_neighbours() -> None:
    losses = paper_loss(np.arange(30.0))
    spoiled = losses.copy()
    spoiled[10], spoiled[20] = 5.0, 0.0
    cleaned = without_outliers(spoiled)
    assert cleaned[10] == pytest.approx((losses[9] + losses[11]) / 2)
    assert cleaned[20] == pytest.approx((losses[19] + losses[21]) / 2)
    unspoiled = [9, 10, 11, 19, 20, 21]
    assert np.delete(cleaned, unspoiled).tolist() == np.delete(losses, unspoiled).tolist()
    assert without_outliers(losses).tolist() == losses.tolist()


@settings(max_examples=30)
@given(seeds)
def test_restart_after_a_drop_of_the_learning_rate(seed: int) -> None:
    """The loss falls by a quarter at step 100; fitted is what follows."""
    steps = np.arange(200.0)
    losses = noisy(
        np.where(steps < 100, 0.7 + paper_loss(steps), 0.4 + 0.2 / (1.0 + 0.05 * np.maximum(steps - 100, 0))),
        seed,
        0.002,
    )
    assert last_drop(losses) == 100
    curve = curve_of(steps, losses)
    assert min(law.curve.first for law in curve.laws) == 100
    assert curve.loss(300.0) == pytest.approx(0.4 + 0.2 / 11, rel=0.06)


def test_no_restart_without_a_drop() -> None:
    assert last_drop(paper_loss(STEPS)) == 0
    assert [last_drop(noisy(paper_loss(STEPS), seed, 0.01)) for seed in range(20)].count(0) >= 19


def test_convergence_by_the_owner_s_threshold() -> None:
    """The steps from which the curve falls by less than 0.2% of its maximum in ten steps, and three epochs."""
    curve = curve_of(STEPS[:100], paper_loss(STEPS[:100]))
    falls = paper_loss(STEPS) - paper_loss(STEPS + 10)
    first = int(np.flatnonzero(falls < 0.002 * paper_loss(0))[0])
    left = curve.steps_to_convergence(0.002, epoch_steps=10, epochs=3)
    assert left.steps == pytest.approx(first + 30 - 99, abs=5)
    assert left.low <= left.steps <= left.high


def test_observed_convergence() -> None:
    assert converged([1.0, 0.5, 0.495, 0.494, 0.4935], threshold=0.01, epochs=3)
    assert not converged([1.0, 0.5, 0.495, 0.4, 0.3999], threshold=0.01, epochs=3)
    assert not converged([1.0], threshold=0.01, epochs=3)


def test_too_few_points_are_no_curve() -> None:
    few = np.arange(float(LEAST_POINTS - 1))
    assert fit(LossPoints(few, few)) is None


@pytest.mark.parametrize("losses", [np.arange(20.0), np.exp(np.arange(20.0))])
def test_a_rising_loss_never_falls_to_less(losses: Any) -> None:
    left = curve_of(np.arange(20.0), losses).steps_to(-1.0)
    assert left.steps == left.high == math.inf
    assert math.isfinite(left.decaying)


def test_a_constant_loss_has_converged() -> None:
    for level in (0.0, 2.0):
        curve = curve_of(np.arange(20.0), np.full(20, level))
        assert curve.steps_to(level).steps == 0.0
        assert curve.steps_to(level - 1.0).steps == math.inf
        assert curve.steps_to_convergence(0.01, 1, 3).steps == 3.0


@given(st.lists(st.floats(0, 1e300), min_size=LEAST_POINTS, max_size=40), st.floats(-1e300, 1e300))
def test_hostile_losses_have_ordered_estimates(losses: list[float], aim: float) -> None:
    curve = curve_of(np.arange(float(len(losses))), losses)
    for left in (curve.steps_to(aim), curve.steps_to_convergence(0.01, 5.0, 3)):
        assert 0.0 <= left.low <= left.steps <= left.high
        assert 0.0 <= left.decaying < math.inf


def test_a_decaying_learning_rate_on_measured_runs() -> None:
    """NanoGPT, after half of the steps: the law is too long, the estimate for decaying rates is right to a fifth."""
    runs = defaultdict(list)
    with gzip.open(shared_data("convergence/nanogpt_val_loss.csv.gz"), "rt") as text:
        for row in csv.DictReader(text):
            runs[row["run"]].append((float(row["step"]), float(row["val_loss"])))
    laws, decaying, inside = [], [], []
    for run in map(np.array, runs.values()):
        half = run[run[:, 0] <= run[-1, 0] / 2]
        left, true = curve_of(*half.T).steps_to(run[-1, 1]), run[-1, 0] - half[-1, 0]
        laws.append(left.steps > true)
        decaying.append(abs(left.decaying - true) / run[-1, 0])
        inside.append(left.low <= true <= left.high)
    assert np.mean(laws) > 0.9
    assert np.median(decaying) < 0.2
    assert np.mean(inside) > 0.9
