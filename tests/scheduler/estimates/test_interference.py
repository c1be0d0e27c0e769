"""The model of interference: planted coefficients, choice of a form, impossible samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.estimates.planted_interference import EXPONENT, PLANTED, contention, planted
from tiresias.scheduler.estimates.interference import (
    EXPONENTIAL,
    FORMS,
    LINEAR,
    MOST_SLOWDOWN,
    NONE,
    QUADRATIC,
    WITHOUT_CPU,
    WITHOUT_PCIE,
    Contention,
    best_model,
    cpu_of_others,
    fit,
    held_out_errors,
)


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_planted_coefficients_are_recovered_within_two_percent(seed: int) -> None:
    found = contention(100, seed)
    model = fit(EXPONENTIAL, found, planted(found))
    assert model.exponent == pytest.approx(EXPONENT, rel=0.02)
    assert model.coefficients == pytest.approx(np.array(PLANTED), rel=0.02)


def test_coefficients_under_noise_predict_other_samples() -> None:
    found, others = contention(480, 1), contention(200, 2)
    model = fit(EXPONENTIAL, found, planted(found, 0.05, 3))
    assert np.abs(model.slowdown(others) / planted(others) - 1.0).mean() < 0.02


def test_each_simpler_form_is_further_off() -> None:
    found = contention(480, 4)
    slowdown = planted(found, 0.05, 5)
    least = held_out_errors(EXPONENTIAL, found, slowdown).mean()
    for form in (NONE, LINEAR, QUADRATIC, WITHOUT_CPU, WITHOUT_PCIE):
        assert held_out_errors(form, found, slowdown).mean() > 1.3 * least, form.name
    assert best_model(found, slowdown).form is EXPONENTIAL


@pytest.mark.parametrize("samples", [3, 20, 200])
def test_noise_alone_is_no_interference(samples: int) -> None:
    chance = np.random.default_rng(6)
    slowdown = np.exp(0.1 * chance.normal(size=samples))
    assert best_model(contention(samples, 7), slowdown).form is NONE


def test_samples_that_are_impossible_do_not_count() -> None:
    found = contention(60, 8)
    slowdown = planted(found)
    wrong = np.array([0.0, -1.0, np.nan, np.inf, 1e9])
    more = Contention(*(np.concatenate((each[:5], each)) for each in found))
    more.cpu[5], slowdown_of_6 = np.nan, slowdown[1:]
    model = fit(EXPONENTIAL, more, np.concatenate((wrong, slowdown)))
    alone = fit(EXPONENTIAL, found.part(np.arange(60) > 0), slowdown_of_6)
    assert model.coefficients == pytest.approx(alone.coefficients)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from(FORMS), st.integers(0, 12))
def test_every_slowdown_is_finite_and_at_least_1(seed: int, form: Any, count: int) -> None:
    """Whatever was measured, and however much is used."""
    chance = np.random.default_rng(seed)
    found = contention(count, seed)
    model = fit(form, found, np.exp(3.0 * chance.normal(size=count)))
    extreme = Contention(*(1000.0 * each for each in contention(20, seed + 1)))
    for each in (extreme, found):
        slowdown = model.slowdown(each)
        assert ((slowdown >= 1.0) & (slowdown <= MOST_SLOWDOWN)).all()


def test_what_does_not_fit_into_other_sockets_counts_in_this_one() -> None:
    same, other = np.array([0.5, 0.5, 0.0]), np.array([0.9, 1.3, 2.0])
    assert cpu_of_others(same, other) == pytest.approx(np.array([0.5, 0.8, 1.0]))
