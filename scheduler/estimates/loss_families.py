"""The families of loss curves, and their least-squares fits: amplitude x decay(step) + floor, amplitude and floor 0 or more.

    inverse       1 / (1 + k / s)         Optimus, equation 1: 1 / (b0 k + b1) + b2
    power         (1 + k / first) ** -s   a power of the steps since the job began
    exponential   exp(-k / s)

k is counted from the first fitted step. Each family has one more number, its shape s. Given s, amplitude and floor are a non-
negative least squares problem of two columns with a closed form; s is searched on a grid that is refined around the best.
Unlike a grid of floors with 1 / (loss - floor) as the target, that weighs the noise of each loss alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.model import Floats

_GRID = 33  # shapes of each search
_SEARCHES = 3
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Family:
    """A family of curves; k is in parts of the fitted steps.

    Attributes:
        decay: The decay at k for a shape and the bend: 1 at k = 0, and falling.
        inverse: The k at which the decay has a value.
        shapes: The lowest and the highest shape.
    """

    decay: Callable[[Values, Values, float], Values]
    inverse: Callable[[float, float, float], float]
    shapes: tuple[float, float]


FAMILIES: Final = {
    "inverse": Family(lambda k, s, _: 1.0 / (1.0 + k / s), lambda part, s, _: s * (1.0 / part - 1.0), (1e-4, 1e3)),
    "power": Family(
        lambda k, s, bend: (1.0 + bend * k) ** -s,
        lambda part, s, bend: math.expm1(min(-math.log(part) / s, 600.0)) / bend,
        (0.02, 5.0),
    ),
    "exponential": Family(lambda k, s, _: np.exp(-k / s), lambda part, s, _: -s * math.log(part), (1e-3, 30.0)),
}


@dataclass(frozen=True, slots=True)
class FamilyFit:
    """A fitted curve.

    Attributes:
        family: Its name in FAMILIES.
        first: The step at which the decay is 1.
        unit: Steps that were fitted; k is in parts of them.
        bend: `unit` in parts of the steps before `first`.
        shape: s, in parts of `unit`.
        amplitude, floor: In the unit of the loss, 0 or more.
        error: Root of the mean squared residual.
    """

    family: str
    first: float
    unit: float
    bend: float
    shape: float
    amplitude: float
    floor: float
    error: float

    def loss(self, step: Values) -> Values:
        """Return the loss at steps; those before `first` count as `first`."""
        k = (np.maximum(step, self.first) - self.first) / self.unit
        return self.amplitude * FAMILIES[self.family].decay(k, self.shape, self.bend) + self.floor

    def step_of(self, loss: float) -> float:
        """Return the step at which the curve has fallen to a loss; inf: never."""
        if loss >= self.amplitude + self.floor:
            return self.first
        if loss <= self.floor:
            return math.inf
        part = (loss - self.floor) / self.amplitude
        return self.first + self.unit * FAMILIES[self.family].inverse(part, self.shape, self.bend)

    @property
    def betas(self) -> tuple[float, float, float]:
        """b0, b1 and b2 of equation 1, for an inverse curve that begins at step 0 and falls."""
        return 1.0 / (self.amplitude * self.shape * self.unit), 1.0 / self.amplitude, self.floor


def fit_family(family: str, steps: Floats, losses: Floats) -> FamilyFit:
    """Return the curve of a family with the least squared residuals. O(points).

    Args:
        family: A name in FAMILIES.
        steps: Rising, shape (points,), 2 or more.
        losses: Shape (points,), about 1 in size.
    """
    first, unit = float(steps[0]), float(steps[-1] - steps[0])
    bend = unit / (first or float(steps[1]))
    low, high = np.log(FAMILIES[family].shapes)
    for _ in range(_SEARCHES):
        shapes = np.exp(np.linspace(low, high, _GRID))
        decays = FAMILIES[family].decay((steps - first)[None, :] / unit, shapes[:, None], bend)
        amplitude, floor = _two_columns(decays, losses)
        squares = ((amplitude[:, None] * decays + floor[:, None] - losses) ** 2).mean(axis=1)
        best = int(squares.argmin())
        low, high = np.log(shapes[max(best - 1, 0)]), np.log(shapes[min(best + 1, _GRID - 1)])
    chosen = [float(each[best]) for each in (shapes, amplitude, floor, np.sqrt(squares))]
    return FamilyFit(family, first, unit, bend, *chosen)


def _two_columns(decays: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """Return amplitude and floor for each shape, shape (shapes,): non-negative least squares with the columns (decay, 1)."""
    mean, middle = decays.mean(axis=1), losses.mean()
    covariance = ((decays - mean[:, None]) * (losses - middle)).mean(axis=1)
    variance = np.maximum(((decays - mean[:, None]) ** 2).mean(axis=1), _TINY)
    amplitude = np.maximum(covariance / variance, 0.0)
    floor = middle - amplitude * mean
    alone = (decays * losses).mean(axis=1) / np.maximum((decays**2).mean(axis=1), _TINY)
    return np.where(floor < 0.0, alone, amplitude), np.maximum(floor, 0.0)
