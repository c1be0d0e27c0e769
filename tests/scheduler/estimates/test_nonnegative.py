from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls  # type: ignore[import-untyped]

from tiresias.scheduler.estimates.nonnegative import nonnegative_least_squares


@st.composite
def problems(draw: Any) -> tuple[Any, Any]:
    """Columns of very different sizes, some equal ones, some without a negative number."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, columns = draw(st.integers(1, 14)), draw(st.integers(1, 7))
    matrix = chance.normal(size=(rows, columns)) * 10.0 ** chance.integers(-4, 5, columns)
    if draw(st.booleans()):
        matrix[:, 0] = matrix[:, -1]
    return (np.abs(matrix) if draw(st.booleans()) else matrix), chance.normal(size=rows)


@given(problems())
def test_as_good_as_scipy(problem: Any) -> None:
    matrix, target = problem
    found = nonnegative_least_squares(matrix, target)
    assert (found >= 0.0).all()
    assert np.linalg.norm(matrix @ found - target) <= nnls(matrix, target)[1] + 1e-6


def test_by_hand() -> None:
    identity = np.eye(2)
    assert nonnegative_least_squares(identity, np.array([3.0, -1.0])).tolist() == [3.0, 0.0]
    assert nonnegative_least_squares(identity, np.zeros(2)).tolist() == [0.0, 0.0]
    assert nonnegative_least_squares(np.zeros((2, 1)), np.ones(2)).tolist() == [0.0]
