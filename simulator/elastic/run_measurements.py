"""What runs of elastic jobs show of their speed and of their loss."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunMeasurements:
    """What simulated runs show.

    Attributes:
        step_noise: Standard deviation of the seconds a step of a run, as a part of them.
        loss_noise: Standard deviation of a loss, as a part of it.
        timed: Seconds with steps from which on the steps of a run count as timed.
        seed: Of the noise.
    """

    step_noise: float = 0.03
    loss_noise: float = 0.01
    timed: float = 10.0
    seed: int = 1
