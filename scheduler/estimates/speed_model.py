"""How fast a job would run with another number of workers, servers, nodes or GPUs, learned from a few measured sizes.

    points = [(nodes, gpus, batch, steps_a_second), ...]
    model = fit(points, ALL_REDUCE)
    model.speed(2, 8, 32)     # steps a second on 2 nodes with 8 GPUs together and 32 samples a GPU

The coefficients theta of a form (`speed_forms`) are found by non-negative least squares of relative errors: each row is
divided by the measured seconds a step. Ten points do not determine seven coefficients, so each is drawn to an expected part
of the typical time of a step, or to the theta of a job of the same kind. A form with several overlaps g is fitted with each;
their predictions are averaged, weighted by how well each explains the points. Near measured sizes the model is corrected by
their residuals (`speed_residuals`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.estimates.speed_fit import NOISE, OverlapFit, fit_overlap, slopes, step
from tiresias.scheduler.estimates.speed_forms import SpeedForm
from tiresias.scheduler.estimates.speed_residuals import NO_RESIDUALS, Residuals
from tiresias.scheduler.model import Bools, Floats

POINTS_KEPT = 256  # measured points of a model, the newest ones
MEMORY = 0.98  # weight of a measured point after each newer one
WITHIN_90 = 1.645  # standard deviations on both sides that 90 of 100 values are within
_LEAST_ERROR = 0.02  # relative error of a measured point, at least
_PRIOR_SPREAD = 0.4  # standard deviation of each theta of a job of the same kind, as a part of it
_FACTOR_ALLOWED = 1e3  # a speed that is further off the median of all points is not accepted


@dataclass(frozen=True, slots=True, eq=False)
class SpeedModel:
    """The speed of a job as a function of its size.

    Attributes:
        form: The terms of a step.
        fits: One for each overlap of the form.
        shares: The weight of each fit, together 1.
        points: Measured rows (a, b, batch, steps a second) that count, the newest last.
        weights: The weight of each point.
        prior: The model of a job of the same kind; None: none.
        error: Typical relative error at the measured points.
        residuals: The correction near the measured sizes.
    """

    form: SpeedForm
    fits: tuple[OverlapFit, ...]
    shares: Floats
    points: Floats = field(repr=False)
    weights: Floats = field(repr=False)
    prior: SpeedModel | None = field(repr=False)
    error: float = NOISE
    residuals: Residuals = field(default=NO_RESIDUALS, repr=False)

    def speed(self, a: npt.ArrayLike, b: npt.ArrayLike, batch: npt.ArrayLike) -> Floats:
        """Return steps a second of the whole job.

        Args:
            a: Servers, or nodes, as the form names them; a number or an array, like the others.
            b: Workers, or GPUs.
            batch: Samples of a step, as in the points.
        """
        sizes, shape = _sizes(a, b, batch)
        return self.form.speed(sizes, np.exp(self.log_seconds(sizes))).reshape(shape)[()]

    def interval(
        self, a: npt.ArrayLike, b: npt.ArrayLike, batch: npt.ArrayLike, deviations: float = WITHIN_90
    ) -> tuple[Floats, Floats]:
        """Return the lowest and the highest plausible measured speed; arguments as for `speed`."""
        sizes, shape = _sizes(a, b, batch)
        middle, wide = self.log_seconds(sizes), deviations * self._deviation(sizes)
        slow, fast = (self.form.speed(sizes, np.exp(middle + side)).reshape(shape)[()] for side in (wide, -wide))
        return slow, fast

    def followed_by(self, points: npt.ArrayLike) -> SpeedModel:
        """Return the model calibrated with newer measured points. Each point makes the older ones count less (MEMORY)."""
        newer = np.asarray(points, np.float64).reshape(-1, 4)
        newer = newer[_possible(newer)]
        weights = np.concatenate((self.weights * MEMORY ** len(newer), MEMORY ** np.arange(len(newer))[::-1]))
        rows = np.concatenate((self.points, newer))
        return fit(rows, self.form, weights, self.prior) if len(newer) else self

    @property
    def loss(self) -> float:
        """Squared standard deviations by which the points and theta are off, of the best fit; comparable between forms."""
        return min(each.loss for each in self.fits)

    def log_seconds(self, sizes: Floats) -> Floats:
        """Return the logarithm of the seconds of a step for sizes (a, b, batch), shape (sizes, 3)."""
        return self._by_form(sizes) + self.residuals.at(sizes)

    def corrected(self) -> SpeedModel:
        """Return the model with the residuals of its points, and their typical error."""
        sizes = self.points[:, :3]
        errors = np.log(self.form.seconds(sizes, self.points[:, 3])) - self._by_form(sizes)
        freedom = max(
            self.weights.sum() - 0.5 * len(self.form.expected), 1.0
        )  # the expectations determine half of theta
        error = float(np.sqrt((self.weights * errors**2).sum() / freedom))
        residuals = Residuals.of(sizes, errors, self.weights)
        return replace(self, error=max(error, _LEAST_ERROR), residuals=residuals)

    def _by_form(self, sizes: Floats) -> Floats:
        return self.shares @ np.log(self._steps(sizes))

    def _steps(self, sizes: Floats) -> Floats:
        columns = self.form.matrix(sizes)
        return np.stack([step(columns, self.form, each.theta, each.overlap) for each in self.fits])

    def _deviation(self, sizes: Floats) -> Floats:
        """Return the standard deviation of the logarithm of a speed: of a point, by theta, and between the overlaps."""
        columns, steps = self.form.matrix(sizes), self._steps(sizes)
        between = self.shares @ (np.log(steps) - self._by_form(sizes)) ** 2
        by_theta = np.zeros(len(sizes))
        for share, each, seconds in zip(self.shares, self.fits, steps, strict=True):
            slope = slopes(columns, self.form, each.theta, each.overlap) / seconds[:, None]
            by_theta += share * np.einsum("ni,ij,nj->n", slope, each.covariance, slope)
        return np.asarray(np.sqrt(self.error**2 + by_theta + between))


def fit(
    points: npt.ArrayLike, form: SpeedForm, weights: npt.ArrayLike | None = None, prior: SpeedModel | None = None
) -> SpeedModel:
    """Return the speed model learned from measured points.

    Args:
        points: Rows (a, b, batch, steps a second), shape (points, 4), the newest last; the last POINTS_KEPT count. a and b are
            servers and workers, or nodes and GPUs. batch is what a step of all workers trains for EQUATION_4 and SYNCHRONOUS, what
            a step trains on one GPU for ALL_REDUCE, and without effect for the others; it must be above 0. Rows with a number that
            is not finite or not above 0 do not count, nor does a speed a thousand times above or below the median.
        form: The terms of a step, of `speed_forms`.
        weights: How much each point counts; None: all alike.
        prior: The model of a job of the same kind and form. Its theta is expected, at the level of the measured speeds, as
            the hardware may differ.

    Raises:
        ValueError: No row counts and there is no prior, or the prior has another form.
    """
    if prior is not None and prior.form is not form:
        raise ValueError("the prior has another form than the model: fit both with one form")
    rows = np.asarray(points, np.float64).reshape(-1, 4)
    counts = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
    accepted = np.flatnonzero(_accepted(rows))[-POINTS_KEPT:]
    if len(accepted):
        return _fitted(rows[accepted], form, counts[accepted], prior)
    if prior is None:
        raise ValueError("no measured point has sizes and a speed above 0: measure the speed of one size at least")
    return replace(prior, points=np.zeros((0, 4)), weights=np.zeros(0), prior=prior)


def _fitted(rows: Floats, form: SpeedForm, counts: Floats, prior: SpeedModel | None) -> SpeedModel:
    sizes, seconds = rows[:, :3], form.seconds(rows[:, :3], rows[:, 3])
    columns, fits = form.matrix(sizes) / seconds[:, None], []
    for place, overlap in enumerate(form.overlaps):
        expected, spread = _usual(form, sizes, seconds)
        if prior is not None:
            level = np.exp(np.log(seconds).mean() - prior.log_seconds(sizes).mean())
            kind = prior.fits[place].theta * level
            expected, spread = kind, _PRIOR_SPREAD * np.maximum(kind, 0.1 * expected)
        fits.append(fit_overlap(columns, form, counts, expected, spread, overlap))
    losses = np.array([each.loss for each in fits])
    shares = np.exp(-0.5 * (losses - losses.min()))
    return SpeedModel(form, tuple(fits), shares / shares.sum(), rows, counts, prior).corrected()


def _usual(form: SpeedForm, sizes: Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """Return the expected theta of any job and its standard deviation, seconds."""
    expected = np.array(form.expected) * np.exp(np.log(seconds).mean()) / form.scales(sizes)
    return expected, np.array(form.spread) * expected


def _sizes(a: npt.ArrayLike, b: npt.ArrayLike, batch: npt.ArrayLike) -> tuple[Floats, tuple[int, ...]]:
    each = np.broadcast_arrays(*(np.asarray(number, np.float64) for number in (a, b, batch)))
    return np.stack([number.ravel() for number in each], axis=1), each[0].shape


def _possible(rows: Floats) -> Bools:
    return np.asarray((np.isfinite(rows) & (rows > 0.0)).all(axis=1))


def _accepted(rows: Floats) -> Bools:
    possible = _possible(rows)
    if not possible.any():
        return possible
    speeds = np.log(np.where(possible, rows[:, 3], 1.0))
    median = np.quantile(speeds[possible], 0.5, method="lower")  # a measured one, which is accepted
    return np.asarray(possible & (np.abs(speeds - median) <= np.log(_FACTOR_ALLOWED)))
