"""How fast completed jobs are forgotten."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tiresias.scheduler.estimates.age_buckets import bucket_of
from tiresias.scheduler.estimates.forgetting import HALF_LIVES, NOTHING_SEEN, Forgetting, counts
from tiresias.scheduler.estimates.hazard import UNKNOWN, Hazards

NO_JOBS = np.zeros(0)


def seen(ages: Any, step: int = 100) -> Forgetting:
    forgetting = NOTHING_SEEN
    for count in range(step, len(ages) + 1, step):
        forgetting = forgetting.after(ages[:count], NO_JOBS)
    return forgetting


def test_counts() -> None:
    assert counts(3, 1.0).tolist() == [0.25, 0.5, 1.0]
    assert counts(3, math.inf).tolist() == [1.0, 1.0, 1.0]
    assert counts(0, 300.0).tolist() == []


def test_the_likelihood_by_hand() -> None:
    hazards = Hazards.of(NO_JOBS, NO_JOBS)
    survives, ends = math.log(1 - UNKNOWN), math.log(UNKNOWN)
    assert hazards.log_likelihood(np.array([0.5])) == pytest.approx(ends)
    assert hazards.log_likelihood(np.array([0.5, 3.0])) == pytest.approx(2 * ends + bucket_of(3.0) * survives)


def test_nothing_is_forgotten_at_first_and_where_the_load_stays() -> None:
    assert NOTHING_SEEN.half_life == math.inf
    generator = np.random.default_rng(1)
    assert seen(generator.exponential(3600.0, 3000)).half_life == math.inf


def test_old_completions_are_forgotten_where_the_load_changes() -> None:
    """Jobs get longer from day to day."""
    generator = np.random.default_rng(1)
    assert seen(generator.exponential(60.0 * 2.0 ** np.arange(0, 9, 0.003))).half_life == min(HALF_LIVES)


def test_each_completion_is_scored_once() -> None:
    ages = np.full(50, 100.0)
    first = NOTHING_SEEN.after(ages, NO_JOBS)
    assert first.scores == (0.0,) * len(HALF_LIVES)
    again = first.after(ages, NO_JOBS)
    assert (again.scores, again.seen) == (first.scores, 50)
    more = again.after(np.full(60, 100.0), NO_JOBS)
    assert more.scores[0] == pytest.approx(first.learned[0].log_likelihood(ages[:10]))
