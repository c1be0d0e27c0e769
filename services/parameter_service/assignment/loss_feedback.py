"""Compares the measured iterations of a job with its profile: its assignment is kept or reverted (AutoPS, section 4.3.3.2)."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from enum import Enum

from tiresias.services.parameter_service.assignment.assignment_rules import LOSS_LIMIT
from tiresias.services.parameter_service.assignment.execution_cycle import loss_of

MONITORED_ITERATIONS = 100  # of the thesis


class LossVerdict(Enum):
    """What the measured iterations show."""

    MEASURING = "measuring"
    KEEP = "keep"
    REVERT = "revert"


@dataclass
class LossFeedback:
    """The measured iterations of a job since its last assignment.

    Attributes:
        iteration_s: The profiled iteration.
        loss_limit: A loss of it or more is reverted.
        iterations: The number of iterations that are measured before each verdict.
    """

    iteration_s: float
    loss_limit: float = LOSS_LIMIT
    iterations: int = MONITORED_ITERATIONS
    _measured: list[float] = field(default_factory=list, repr=False)
    _loss: float = field(default=0.0, repr=False)
    _mean_s: float | None = field(default=None, repr=False)

    def observe(self, iteration_s: float) -> LossVerdict:
        """Add the seconds of an iteration; return a verdict after each group of iterations. Their mean counts, as pauses do."""
        self._measured.append(iteration_s)
        if len(self._measured) < self.iterations:
            return LossVerdict.MEASURING
        self._mean_s = statistics.fmean(self._measured)
        self._loss = loss_of(self._mean_s, self.iteration_s)
        self._measured.clear()
        return LossVerdict.REVERT if self._loss >= self.loss_limit else LossVerdict.KEEP

    @property
    def loss(self) -> float:
        """The loss of the last whole group; 0 before the first."""
        return self._loss

    @property
    def measured_s(self) -> float | None:
        """The mean seconds of the iterations of the last whole group; None before the first."""
        return self._mean_s

    def restart(self) -> None:
        """Discard what was measured: the assignment has changed."""
        self._measured.clear()
