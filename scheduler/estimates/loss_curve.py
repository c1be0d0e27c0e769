"""How many steps a job still needs until its loss is low enough, predicted from its own loss curve (Optimus, section 3.1).

Curves of three families (`loss_families`) are fitted to the whole history and to later parts of it, as the first steps of a
training follow another law than the rest; after a sudden drop, as by a lower learning rate, to what follows it. Each is
judged by how well it predicts the newest fifth of the points from the earlier ones, and the best one is the law; of equal
ones that of the longest part.

A learning rate that decays at the end makes the loss fall faster than any of these laws. A curve that bends upwards cannot be
faster than its present slope, so `Remaining` has a lower end that allows for twice that slope, and a second estimate for jobs
whose learning rate decays: the geometric mean of the law and of the constant slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.estimates.loss_families import FAMILIES, FamilyFit, fit_family
from tiresias.scheduler.estimates.loss_history import LossPoints
from tiresias.scheduler.estimates.loss_preprocessing import last_drop, without_outliers
from tiresias.scheduler.model import Floats

LEAST_POINTS = 5
_PARTS = (0.0, 0.25, 0.5, 0.625, 0.75)  # of the points, which a fitted part leaves out at the beginning
_HELD_OUT = 0.2  # of the points
_CHANCE = 3.0  # standard deviations of the error on the held-out points: errors that differ by less are equal
_MOST_EQUAL = 0.5  # as a part of the smallest error; with few points three deviations are more
_PLAUSIBLE = 3.0  # a law predicts the held-out points at most so many times worse than the best one
_STEEPER = 2.0  # a decaying learning rate makes the curve at most so many times steeper
_MOST_STEPS = 10.0  # in parts of the steps so far: a law predicts no further
_WITHIN_90 = 1.645  # standard deviations


class Remaining(NamedTuple):
    """The steps that a job still needs; inf: it does not get there.

    Attributes:
        steps: By the law, at a constant learning rate.
        decaying: If the learning rate decays until the end of the job; finite.
        low, high: The interval for both.
    """

    steps: float
    decaying: float
    low: float
    high: float


class Law(NamedTuple):
    """One fitted curve and its error on the points that were held out."""

    curve: FamilyFit
    error: float


class Slope(NamedTuple):
    """The straight line through the newest third of the points: the loss at the newest step, the fall a step and its deviation."""

    loss: float
    fall: float
    deviation: float


@dataclass(frozen=True, slots=True)
class LossCurve:
    """What is known of the further course of a loss.

    Attributes:
        laws: All fitted curves, in units of `scale`, the best one first.
        slope: Of the newest points, in units of `scale`.
        newest: The newest step.
        scale: The largest loss so far, by which losses are divided.
    """

    laws: tuple[Law, ...]
    slope: Slope
    newest: float
    scale: float

    @property
    def law(self) -> FamilyFit:
        """The curve that predicts the held-out points best, in units of `scale`."""
        return self.laws[0].curve

    def loss(self, step: npt.ArrayLike) -> Floats:
        """Return the loss that the law predicts at steps."""
        return np.asarray(self.scale * self.law.loss(np.asarray(step, np.float64)))

    def interval(self, step: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the lowest and the highest loss at steps, by all laws that predict the held-out points about equally well."""
        steps = np.asarray(step, np.float64)
        plausible = [law for law in self.laws if law.error <= _PLAUSIBLE * self.laws[0].error]
        losses = np.array([law.curve.loss(steps) for law in plausible])
        wide = _WITHIN_90 * self.laws[0].error
        return self.scale * np.maximum(losses.min(axis=0) - wide, 0.0), self.scale * (losses.max(axis=0) + wide)

    def steps_to(self, loss: float) -> Remaining:
        """Return the steps until the loss has fallen to a value."""
        aim = loss / self.scale
        above, fall = max(self.slope.loss - aim, 0.0), self.slope.fall
        return self._remaining(lambda law: law.step_of(aim), lambda more: _quotient(above, fall + more))

    def steps_to_convergence(self, threshold: float, epoch_steps: float, epochs: int) -> Remaining:
        """Return the steps until the loss has fallen by less than a threshold in each of several epochs.

        Args:
            threshold: Of the largest loss so far.
            epoch_steps: Steps of an epoch.
            epochs: Number of epochs, 1 or more.
        """

        def converged(law: FamilyFit) -> float:
            return _flat_from(law, threshold, epoch_steps, self.newest) + epochs * epoch_steps

        return self._remaining(converged, lambda _: math.inf)

    def _remaining(self, at: Callable[[FamilyFit], float], straight: Callable[[float], float]) -> Remaining:
        """Return the estimate from the step at which a law is there, and the steps at the slope and so much more fall."""
        plausible = [law for law in self.laws if law.error <= _PLAUSIBLE * self.laws[0].error]
        steps = [max(at(law.curve) - self.newest, 0.0) for law in plausible]
        slope, doubt = straight(0.0), _WITHIN_90 * self.slope.deviation
        longest = _MOST_STEPS * max(self.newest, 1.0)
        low = min(min(steps), straight(doubt)) / _STEEPER
        high = max(max(steps), 1.5 * straight(-doubt)) if math.isfinite(slope) else max(steps)
        decaying = math.sqrt(min(steps[0], longest) * min(slope, steps[0], longest))
        return Remaining(steps[0], min(max(decaying, low), longest), low, high)


def fit(points: LossPoints) -> LossCurve | None:
    """Return the curve of a history (`LossHistory.points`); None where it has fewer than LEAST_POINTS points."""
    if len(points.steps) < LEAST_POINTS:
        return None
    scale = float(points.losses.max()) or 1.0
    first = last_drop(points.losses / scale)
    steps, losses = points.steps[first:], without_outliers(points.losses[first:] / scale)
    return LossCurve(_laws(steps, losses), _slope(steps, losses), float(steps[-1]), scale)


def converged(losses: npt.ArrayLike, threshold: float, epochs: int) -> bool:
    """Return whether the loss has fallen by less than `threshold` times its maximum in each of the last `epochs` epochs.

    Args:
        losses: The loss of each epoch so far.
        threshold: The owner's threshold, such as 0.01.
        epochs: 1 or more.
    """
    each = np.asarray(losses, np.float64)
    falls = each[:-1] - each[1:]
    return len(falls) >= epochs and bool((falls[-epochs:] < threshold * each.max()).all())


def _laws(steps: Floats, losses: Floats) -> tuple[Law, ...]:
    """Return the fits of all families to all parts, the best first."""
    count = len(steps)
    known = count - max(2, int(_HELD_OUT * count))
    found = []
    for first in sorted({int(part * count) for part in _PARTS}):
        if known - first < 3:
            break
        for family in FAMILIES:
            early = fit_family(family, steps[first:known], losses[first:known])
            error = float(np.sqrt(((early.loss(steps[known:]) - losses[known:]) ** 2).mean()))
            found.append(Law(fit_family(family, steps[first:], losses[first:]), error))
    return _ordered(found, count - known)


def _ordered(laws: list[Law], held_out: int) -> tuple[Law, ...]:
    """Return the best law first: of those whose errors differ by chance the one with the longest part; then by error."""
    best = min(law.error for law in laws)
    equal = best * (1.0 + min(_CHANCE / math.sqrt(2.0 * held_out), _MOST_EQUAL))
    first = min((law for law in laws if law.error <= equal), key=lambda law: (law.curve.first, law.error))
    return first, *sorted((law for law in laws if law is not first), key=lambda law: law.error)


def _slope(steps: Floats, losses: Floats) -> Slope:
    newest = max(3, len(steps) // 3)
    k, each = steps[-newest:] - steps[-1], losses[-newest:]
    middle = k - k.mean()
    width = float((middle**2).sum())
    fall = -float((middle * each).sum()) / width
    residuals = each - each.mean() + fall * middle
    return Slope(
        float(each.mean() + fall * k.mean()), fall, math.sqrt(float((residuals**2).sum()) / (newest - 2) / width)
    )


def _flat_from(law: FamilyFit, threshold: float, epoch_steps: float, newest: float) -> float:
    """Return the step from `newest` on, by bisection, from which the law falls by less than a threshold an epoch."""

    def falls(step: float) -> bool:
        return bool(law.loss(step) - law.loss(step + epoch_steps) >= threshold)

    if not falls(newest):
        return newest
    below, above = newest, newest + epoch_steps
    while falls(above):
        below, above = above, above + 2.0 * (above - newest)
    while above - below > 0.01 * epoch_steps + 1e-9 * above:
        middle = (below + above) / 2.0
        below, above = (middle, above) if falls(middle) else (below, middle)
    return above


def _quotient(distance: float, fall: float) -> float:
    if distance == 0.0:
        return 0.0
    return distance / fall if fall > 0.0 else math.inf
