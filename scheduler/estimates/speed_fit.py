"""Fits the coefficients of a speed form with one overlap to measured seconds a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates.nonnegative import nonnegative_least_squares
from tiresias.scheduler.estimates.speed_forms import SpeedForm
from tiresias.scheduler.model import Floats

NOISE = 0.1  # expected relative error of a form at a measured point
_ROUNDS = 8  # of the fit with overlap: the shares of computation and communication settle in a few
_LEAST_PART = 0.05  # of the expected theta: no term vanishes, so no size is infinitely fast


class OverlapFit(NamedTuple):
    """The fit with one overlap.

    Attributes:
        overlap: The exponent g.
        theta: Coefficients in seconds, shape (columns,).
        covariance: Of theta, shape (columns, columns).
        loss: Squared standard deviations by which points and theta are off.
    """

    overlap: float
    theta: Floats
    covariance: Floats
    loss: float


def fit_overlap(
    columns: Floats, form: SpeedForm, counts: Floats, expected: Floats, spread: Floats, overlap: float
) -> OverlapFit:
    """Return the theta with the least loss, each at least a small part of the expected one.

    A step is homogeneous in theta: its seconds are the sum of theta times its slopes. So a round of Gauss-Newton is a non-negative
    least squares problem, in which each column is multiplied by the share of computation or of communication.

    Args:
        columns: Columns of the form, each row divided by the measured seconds, shape (points, columns).
        form: The form.
        counts: Weights of the points.
        expected: Mean of each theta before the points, seconds, above 0.
        spread: Its standard deviation, above 0.
        overlap: The exponent g.
    """
    heavy = np.sqrt(counts) / NOISE
    target = np.concatenate((heavy, expected / spread))
    theta, least = expected, _LEAST_PART * expected
    for turn in range(_ROUNDS if overlap > 1.0 else 1):
        rows = slopes(columns, form, theta, overlap) * heavy[:, None]
        stacked = np.concatenate((rows, np.diag(1.0 / spread)))
        found = least + nonnegative_least_squares(stacked, target - stacked @ least)
        theta = found if turn == 0 else (theta + found) / 2.0
    errors = (step(columns, form, theta, overlap) - 1.0) * heavy
    loss = float(errors @ errors + (((theta - expected) / spread) ** 2).sum())
    covariance: Floats = np.asarray(np.linalg.pinv(stacked.T @ stacked), np.float64)
    return OverlapFit(overlap, theta, covariance, loss)


def step(columns: Floats, form: SpeedForm, theta: Floats, overlap: float) -> Floats:
    """Return the seconds of a step for each row of columns."""
    computation, communication = _parts(columns, form, theta)
    longest = np.maximum(computation, communication)
    shares = (computation / longest) ** overlap + (communication / longest) ** overlap
    return np.asarray(longest * shares ** (1.0 / overlap))


def slopes(columns: Floats, form: SpeedForm, theta: Floats, overlap: float) -> Floats:
    """Return the derivative of the seconds of a step by each theta, shape (rows, columns)."""
    computation, communication = _parts(columns, form, theta)
    whole, first = step(columns, form, theta, overlap), form.computation
    one, other = ((part / whole) ** (overlap - 1.0) for part in (computation, communication))
    return np.concatenate((columns[:, :first] * one[:, None], columns[:, first:] * other[:, None]), axis=1)


def _parts(columns: Floats, form: SpeedForm, theta: Floats) -> tuple[Floats, Floats]:
    first = form.computation
    return columns[:, :first] @ theta[:first], columns[:, first:] @ theta[first:]
