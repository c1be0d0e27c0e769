"""How fast each kind of job runs beside each other kind, completed from the pairs that were measured.

    found = complete(ratio, alike(kinds))
    found.ratio[a, b]      # throughput of a beside b, divided by its throughput alone

The logarithm of the odds of each ratio is a Gaussian process over ordered pairs (Rasmussen and Williams 2006, chapter 2): a job is
sensitive to others, it loads others, and some pairs suit each other. Kinds of one family are expected to be alike the more the less
their sizes differ; so are kinds that were measured to be as sensitive and as heavy. How much each of this counts is chosen by the
error at pairs that are left out (chapter 5.4.2). O(measured^3), at most some 1,000 measured ratios. Pure.
"""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats, Ints

MOST_MEASURED = 1500  # ratios that count, the last ones: the time grows with the third power
_LEAST_RATIO = 0.02  # smaller ratios count as this one
_UNHINDERED = 0.98  # the odds of a ratio of 1 are those of this
_LATENT_NOISE = 0.3  # variance with which the sensitivity of a kind is first estimated
_EXPECTED_AS = 50.0  # left-out ratios that the expected width of intervals counts for
_WITHIN_90 = 1.645  # standard deviations


class CoRunMatrix(NamedTuple):
    """The result, arrays of shape (kinds, kinds).

    Attributes:
        ratio: Throughput of the row's kind beside the column's, divided by its throughput alone, in (0, 1).
        low: The lowest plausible ratio.
        high: The highest plausible ratio.
        error: Mean relative error of pairs that are predicted from the other measured ones; nan: nothing is measured.
    """

    ratio: Floats
    low: Floats
    high: Floats
    error: float


class PairPrior(NamedTuple):
    """What is expected before the pairs are measured: variances of the logarithm of the odds.

    Attributes:
        single: Of the sensitivity of a kind, and of its load.
        pair: Of a pair of kinds.
        swapped: Of a pair, shared with the same pair seen from the other job.
        latent: Of a smooth function of the measured sensitivities and loads of both kinds.
        scale: Of the difference of these by which pairs are less alike.
        family: Part of a kind that kinds of its family share.
        noise: Of one measurement.
    """

    single: float
    pair: float
    swapped: float
    latent: float
    scale: float
    family: float
    noise: float


def _priors() -> list[PairPrior]:
    plain = [PairPrior(1.0, 0.3, 0.0, 0.0, 1.0, family, noise) for family, noise in product((0.0, 0.8), (0.03, 0.3))]
    smooth = [
        PairPrior(0.3, pair, swapped, 1.0, scale, 0.8, noise)
        for (pair, swapped), scale, noise in product(((0.1, 0.1), (0.3, 0.0)), (0.7, 1.5), (0.03, 0.3))
    ]
    return plain + smooth


PRIORS = tuple(_priors())


def complete(ratio: Floats, likeness: Floats) -> CoRunMatrix:
    """Return the whole matrix. Where nothing is measured, all ratios are 1/2 and may be anything.

    Args:
        ratio: Measured ratios, shape (kinds, kinds). What is not finite or not above 0 was not measured; above 1 counts as 1.
        likeness: As `job_kinds.alike` returns it: positive semidefinite, 1 on the diagonal, shape (kinds, kinds).
    """
    rows, columns = np.nonzero(np.nan_to_num(ratio, nan=0.0, posinf=0.0) > 0.0)
    rows, columns = rows[-MOST_MEASURED:], columns[-MOST_MEASURED:]
    if not len(rows):
        flat = np.full(ratio.shape, 0.5)
        return CoRunMatrix(flat, np.full(ratio.shape, _LEAST_RATIO), np.ones(ratio.shape), math.nan)
    measured = _Pairs(rows, columns, _odds(ratio[rows, columns]))
    fits = [_PairProcess.fitted(measured, likeness, prior) for prior in PRIORS]
    return min(fits, key=lambda one: one.left_out_error).matrix(len(ratio))


class _Pairs(NamedTuple):
    """Measured pairs: kinds and the logarithm of the odds, each of shape (measured,)."""

    rows: Ints
    columns: Ints
    odds: Floats


class _PairProcess(NamedTuple):
    """A Gaussian process given the measured pairs."""

    kernel: _Kernel
    pairs: _Pairs
    mean: float
    inverse: Floats  # of the covariance of the measured odds

    @classmethod
    def fitted(cls, pairs: _Pairs, likeness: Floats, prior: PairPrior) -> _PairProcess:
        """Return the process of a prior. likeness: shape (kinds, kinds)."""
        shared = (1.0 - prior.family) * np.eye(len(likeness)) + prior.family * likeness
        kernel = _Kernel(prior, shared, _latent(pairs, shared))
        covariance = kernel.between(pairs.rows, pairs.columns, pairs.rows, pairs.columns)
        inverse = np.asarray(np.linalg.inv(covariance + prior.noise * np.eye(len(pairs.odds))), np.float64)
        return cls(kernel, pairs, float(pairs.odds.mean()), inverse)

    @property
    def left_out_error(self) -> float:
        """The mean relative error of ratios if each pair, seen from both of its jobs, is predicted from the others."""
        off, _ = self._left_out()
        return float(np.abs(_ratio(self.pairs.odds - off) / _ratio(self.pairs.odds) - 1.0).mean())

    def _left_out(self) -> tuple[Floats, Floats]:
        """Return measured minus predicted odds of each pair, from the pairs without it, and the variance; shape (measured,)."""
        solved, other = self.inverse @ (self.pairs.odds - self.mean), _mirrored(self.pairs)
        own, both = np.diag(self.inverse), other >= 0
        own_other, solved_other = np.where(both, own[other], 1.0), np.where(both, solved[other], 0.0)
        cross = np.where(both, self.inverse[np.arange(len(own)), other], 0.0)
        determinant = own * own_other - cross**2
        return (own_other * solved - cross * solved_other) / determinant, own_other / determinant

    def _calibration(self) -> float:
        """Return the typical left-out difference in expected standard deviations."""
        off, variance = self._left_out()
        return float(np.sqrt(((off**2 / variance).sum() + _EXPECTED_AS) / (len(off) + _EXPECTED_AS)))

    def matrix(self, kinds: int) -> CoRunMatrix:
        """Return the ratios of all pairs."""
        rows, columns = (each.ravel() for each in np.indices((kinds, kinds)))
        cross = self.kernel.between(rows, columns, self.pairs.rows, self.pairs.columns)
        middle = self.mean + cross @ (self.inverse @ (self.pairs.odds - self.mean))
        variance = self.kernel.own(rows, columns) - ((cross @ self.inverse) * cross).sum(axis=1)
        wide = _WITHIN_90 * self._calibration() * np.sqrt(np.maximum(variance, 0.0) + self.kernel.prior.noise)
        ratio, low, high = (_ratio(each).reshape(kinds, kinds) for each in (middle, middle - wide, middle + wide))
        return CoRunMatrix(ratio, low, high, self.left_out_error)


class _Kernel(NamedTuple):
    """The covariance of the odds of pairs."""

    prior: PairPrior
    shared: Floats  # of kinds, shape (kinds, kinds)
    latent: Floats  # sensitivity and load of each kind, shape (kinds, 2)

    def between(self, a: Ints, b: Ints, c: Ints, d: Ints) -> Floats:
        """Return the covariance of the pairs (a, b) with the pairs (c, d), shape (len(a), len(c))."""
        row, column = self.shared[np.ix_(a, c)], self.shared[np.ix_(b, d)]
        swapped = self.shared[np.ix_(a, d)] * self.shared[np.ix_(b, c)]
        prior = self.prior
        found = prior.single * (row + column) + prior.pair * row * column + prior.swapped * swapped
        return np.asarray(found + self._smooth(a, b, c, d))

    def own(self, a: Ints, b: Ints) -> Floats:
        """Return the variance of each pair, shape (len(a),)."""
        row, prior = np.diag(self.shared), self.prior
        swapped = self.shared[a, b] * self.shared[b, a]
        found = prior.single * (row[a] + row[b]) + prior.pair * row[a] * row[b] + prior.swapped * swapped
        return np.asarray(found + prior.latent)

    def _smooth(self, a: Ints, b: Ints, c: Ints, d: Ints) -> Floats:
        if not self.prior.latent:
            return np.zeros((len(a), len(c)))
        here, there = np.c_[self.latent[a], self.latent[b]], np.c_[self.latent[c], self.latent[d]]
        squares = (here**2).sum(axis=1)[:, None] + (there**2).sum(axis=1)[None, :] - 2.0 * here @ there.T
        return np.asarray(self.prior.latent * np.exp(-0.5 * np.maximum(squares, 0.0) / self.prior.scale**2))


def _latent(pairs: _Pairs, shared: Floats) -> Floats:
    """Return the sensitivity and the load of each kind, without effects of pairs, shape (kinds, 2)."""
    row, column = shared[:, pairs.rows], shared[:, pairs.columns]
    covariance = row[pairs.rows] + column[pairs.columns] + _LATENT_NOISE * np.eye(len(pairs.odds))
    solved = np.linalg.solve(covariance, pairs.odds - pairs.odds.mean())
    return np.stack((row @ solved, column @ solved), axis=1)


def _mirrored(pairs: _Pairs) -> Ints:
    """Return where the same pair is measured from the other job; -1: nowhere, or both jobs are of one kind."""
    each = list(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True))
    places = {pair: place for place, pair in enumerate(each)}
    return np.array([places.get((b, a), -1) if a != b else -1 for a, b in each], np.int64)


def _odds(ratio: Floats) -> Floats:
    part = _UNHINDERED * np.clip(ratio, _LEAST_RATIO, 1.0)
    return np.asarray(np.log(part / (1.0 - part)))


def _ratio(odds: Floats) -> Floats:
    return np.asarray(np.minimum(1.0 / (1.0 + np.exp(-odds)) / _UNHINDERED, 1.0))
