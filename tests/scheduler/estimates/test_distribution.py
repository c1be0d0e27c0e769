"""The Gittins index of a service distribution, against its definition worked out job by job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.estimates.distribution import Distribution

many = settings(max_examples=examples(200), deadline=None)
services = st.lists(st.integers(1, 60).map(lambda value: value / 4), min_size=1, max_size=30)
amounts = st.integers(0, 80).map(lambda value: value / 4)


def defined(of: list[float], attained: float, quantum: float) -> float:
    """P(S - a <= D | S > a) / E[min(S - a, D) | S > a]; 0 where no S is above a."""
    left = [service - attained for service in of if service > attained]
    if not left:
        return 0.0
    ends = sum(each <= quantum for each in left) / len(left)
    return ends / (sum(min(each, quantum) for each in left) / len(left))


@many
@given(services, amounts, amounts.filter(bool))
def test_index_within_a_quantum(of: Any, attained: Any, quantum: Any) -> None:
    assert Distribution(of).within(attained, quantum) == pytest.approx(defined(of, attained, quantum), rel=1e-9)


@many
@given(services, amounts)
def test_best_index(of: Any, attained: Any) -> None:
    """The best quantum ends with a job, as between two ends more service is used and no job ends."""
    expected = max((defined(of, attained, service - attained) for service in of if service > attained), default=0.0)
    assert Distribution(of).best(attained) == pytest.approx(expected, rel=1e-9)


@many
@given(services, st.lists(amounts, min_size=1, max_size=10), amounts.filter(bool))
def test_of_many_jobs_as_of_each(of: Any, attained: Any, quantum: Any) -> None:
    known, column = Distribution(of), np.array(attained)
    assert known.within(column, quantum).tolist() == [known.within(each, quantum) for each in attained]
    assert known.best(column).tolist() == [known.best(each) for each in attained]


def test_by_hand() -> None:
    """Three jobs of 4, 8 and 12: the best quantum from 0 is all the rest, 8 on average, from 4 on again, and from 8 the last 4."""
    known = Distribution([12, 4, 8])
    assert known.within(0.0, 4.0) == pytest.approx(1 / 12)
    assert known.best(np.array([0.0, 4.0, 8.0, 12.0])) == pytest.approx([1 / 8, 1 / 6, 1 / 4, 0.0])


def test_without_completed_jobs_the_index_is_0() -> None:
    nothing = Distribution([])
    assert nothing.within(3.0, 5.0) == 0.0
    assert nothing.best(3.0) == 0.0
    assert nothing.best(np.array([0.0, 3.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0])
def test_large_distributions_are_as_exact(shape: Any) -> None:
    """Services of five orders of magnitude; the sums over them lose no digits that matter."""
    of = (np.random.default_rng(1).weibull(shape, 20_000) * 1e5).tolist()
    known = Distribution(of)
    for attained in (0.0, 1e2, 1e5, sorted(of)[-5] + 1e-3):
        assert known.within(attained, 3600.0) == pytest.approx(defined(of, attained, 3600.0), rel=1e-6)
