"""What claims of remaining work are worth, whatever programs claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.estimates.claims import (
    OVERRUN,
    SLACK_S,
    Claim,
    Trust,
    coarse,
    expected_remaining,
    next_coarse,
)

FEW = settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
SECONDS = st.floats(0.0, 1e9)
HISTORIES = st.lists(st.tuples(st.floats(0.0, 1e5), SECONDS), min_size=1, max_size=8)  # seconds after the last, left


def made(history: list[tuple[float, float]]) -> tuple[Claim, float]:
    """Return the claims and the seconds of work at the newest of them."""
    at, claim = history[0]
    claims = Claim.first(at, claim)
    for later, left in history[1:]:
        at += later
        claims = claims.then(at, left)
    return claims, at


def test_the_remaining_time_of_an_honest_job_is_exact() -> None:
    claims = Claim.first(30.0, 970.0).then(130.0, 870.0).then(500.0, 500.0)
    assert claims.remaining(600.0) == pytest.approx(400.0)
    assert claims.trusted_until > 600.0


def test_a_job_that_always_claims_a_tenth_is_soon_expected_to_need_most_of_the_truth() -> None:
    total, claims = 36_000.0, Claim.first(30.0, 3597.0)
    for at in range(60, 3600, 60):
        claims = claims.then(float(at), (total - at) / 10.0)
    assert claims.remaining(3600.0) > 0.5 * (total - 3600.0)


@FEW
@given(history=HISTORIES, later=SECONDS)
def test_no_job_is_trusted_for_longer_than_its_earliest_claimed_end(
    history: list[tuple[float, float]], later: float
) -> None:
    """However it claims: after the earliest end that it ever claimed, and the tolerance, only longer claims count."""
    claims, at = made(history)
    moments = np.cumsum([each for each, _ in history])
    end = min(moment + left for moment, (_, left) in zip(moments, history, strict=True))
    assert claims.trusted_until <= end * (1.0 + OVERRUN) + SLACK_S + 1e-3
    worked = at + later
    if worked >= claims.trusted_until:
        assert expected_remaining(claims.remaining(worked), 500.0, 0.0) >= 500.0


@FEW
@given(history=HISTORIES, later=SECONDS)
def test_a_claim_is_never_shortened(history: list[tuple[float, float]], later: float) -> None:
    claims, at = made(history)
    left = claims.remaining(at + later)
    assert math.isfinite(left)
    assert left >= max(history[-1][1] - later, 0.0) * 0.999


@FEW
@given(claimed=SECONDS, by_age=st.floats(1.0, 1e9), trust=st.floats(0.0, 1.0))
def test_the_expectation_is_between_claim_and_age_and_distrust_is_no_gain(
    claimed: float, by_age: float, trust: float
) -> None:
    found = expected_remaining(claimed, by_age, trust)
    low, high = sorted((max(claimed, 1.0), by_age))
    assert low * 0.999 <= found <= high * 1.001
    assert found >= max(claimed, 1.0) * 0.999
    assert found >= expected_remaining(claimed, by_age, 1.0) * 0.999
    assert expected_remaining(math.nan, by_age, trust) == by_age


def test_arrays_and_numbers_agree() -> None:
    claimed, by_age, trust = np.array([5.0, math.nan, 900.0]), np.array([100.0, 50.0, 30.0]), np.array([0.5, 1.0, 0.0])
    one_by_one = [
        expected_remaining(*row) for row in zip(claimed.tolist(), by_age.tolist(), trust.tolist(), strict=True)
    ]
    assert expected_remaining(claimed, by_age, trust).tolist() == pytest.approx(one_by_one)


def test_an_owner_who_always_claims_a_tenth_is_expected_to_need_ten_times_the_claim() -> None:
    trust = Trust()
    assert (trust.weight, trust.stretch) == (1.0, 1.0)
    for _ in range(40):
        trust = trust.learned(claimed=1000.0, needed=10_000.0)
    assert trust.stretch == pytest.approx(10.0, rel=0.3)
    for _ in range(100):
        trust = trust.learned(claimed=1000.0, needed=900.0)
    assert trust.weight > 0.95
    assert trust.stretch == pytest.approx(1.0, rel=0.05)


def test_claims_that_hold_by_chance_only_count_less() -> None:
    trust = Trust()
    for _ in range(40):
        trust = trust.learned(1000.0, 100_000.0).learned(100_000.0, 1000.0)
    assert trust.weight < 0.6


@FEW
@given(outcomes=st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)), max_size=30))
def test_trust_is_a_weight(outcomes: list[tuple[float, float]]) -> None:
    trust = Trust()
    for claimed, needed in outcomes:
        trust = trust.learned(claimed, needed)
    assert 0.0 <= trust.weight <= 1.0
    assert 1.0 <= trust.stretch <= 1001.0


def test_without_a_claim_there_is_no_step() -> None:
    assert math.isnan(coarse(math.nan))
    assert np.isnan(coarse(np.array([math.nan, 5.0]))).tolist() == [True, False]


@FEW
@given(seconds=st.floats(0.0, 1e9))
def test_the_rank_of_a_running_job_falls_at_the_next_step_and_not_before(seconds: float) -> None:
    step, following = coarse(seconds), next_coarse(seconds)
    assert step >= seconds - 1e-2
    assert following < max(seconds, 16.0)
    if following > 0:
        assert coarse(following) < step
        assert coarse((seconds + following) / 2.0 + 0.01) <= step
