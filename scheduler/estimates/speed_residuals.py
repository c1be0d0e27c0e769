"""What a speed model leaves unexplained near measured sizes: a Gaussian process on the residuals of the logarithm.

Sizes are near if they differ by less than about a factor of two. The correction is a sum of one term each for the three
numbers of a size, so a point with the same batch corrects the effect of the batch everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Floats

_AMPLITUDE = 0.05  # standard deviation of each term, relative
_NOISE = 0.07  # of a measured point
_LENGTHS = np.array([1.0, 1.0, 0.5])  # doublings


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """The correction of a model.

    Attributes:
        sizes: Measured sizes, shape (points, 3).
        pulls: How much each draws the correction to itself, shape (points,).
    """

    sizes: Floats
    pulls: Floats

    @classmethod
    def of(cls, sizes: Floats, errors: Floats, weights: Floats) -> Residuals:
        """Return the correction for errors of log seconds at sizes. O(points^3)."""
        noise = _NOISE**2 / np.maximum(weights, 1e-6)
        pulls = np.linalg.solve(_covariance(sizes, sizes) + np.diag(noise), errors)
        return cls(sizes, pulls.astype(np.float64))

    def at(self, sizes: Floats) -> Floats:
        """Return what is added to log seconds, shape (sizes,)."""
        return _covariance(sizes, self.sizes) @ self.pulls


def _covariance(one: Floats, other: Floats) -> Floats:
    apart = (np.log2(one)[:, None, :] - np.log2(other)[None, :, :]) / _LENGTHS
    return np.asarray(_AMPLITUDE**2 * np.exp(-0.5 * apart**2).sum(axis=-1))


NO_RESIDUALS = Residuals(np.ones((0, 3)), np.zeros(0))
