"""The loss of a simulated training, and when it has converged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Floats

EPOCHS_BELOW = 3  # in so many epochs the loss must fall by less than the threshold


@dataclass(frozen=True, slots=True)
class SimulatedConvergence:
    """The loss by epochs, 1 / (slope x epochs + 1) + floor, until it falls by less than `threshold` of its maximum in an epoch."""

    slope: float
    floor: float
    threshold: float

    def loss(self, epochs: Floats) -> Floats:
        """Return the loss after epochs."""
        return 1.0 / (self.slope * epochs + 1.0) + self.floor

    @property
    def epochs(self) -> int:
        """The epochs until the loss has converged."""
        falls = -np.diff(self.loss(np.arange(1000.0))) < self.threshold * (1.0 + self.floor)
        return int(falls.argmax()) + EPOCHS_BELOW
