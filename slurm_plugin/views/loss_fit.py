"""The losses of a job and the curve that is fitted to them, for plots."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiresias.protocol.published_progress import PublishedProgress
from tiresias.scheduler.estimates import loss_curve
from tiresias.scheduler.estimates.loss_history import LossPoints
from tiresias.scheduler.model import Floats

_AHEAD = 1.5  # times the newest step, where the end is not known
_FARTHEST = 5.0


class LossFit(NamedTuple):
    """What a plot shows; arrays of shape (points,) and (steps,). Without a fit the arrays of steps are empty.

    Attributes:
        points: The losses.
        steps: Steps of the fit, evenly spaced up to the end.
        fit: The fitted loss there.
        low, high: Its interval from the newest loss on; nan before.
        right: The last step of the plot.
        aim: The loss at which the training ends; None: not stated.
    """

    points: LossPoints
    steps: Floats
    fit: Floats
    low: Floats
    high: Floats
    right: float
    aim: float | None


def loss_fit(found: PublishedProgress, count: int) -> LossFit:
    """Return the losses and their fit. count: of its steps."""
    points = LossPoints(np.array(found["steps"], np.float64), np.array(found["losses"], np.float64))
    aim = (found["until"] or {}).get("loss")
    newest = float(points.steps[-1]) if len(points.steps) else 0.0
    curve = loss_curve.fit(points)
    if curve is None:
        none = np.zeros(0)
        return LossFit(points, none, none, none, none, max(newest, 1.0), aim)
    right = _last_step(found, newest, curve, aim)
    steps = np.linspace(float(points.steps[0]), right, count)
    low, high = (np.where(steps >= newest, each, np.nan) for each in curve.interval(steps))
    return LossFit(points, steps, curve.loss(steps), low, high, right, aim)


def _last_step(found: PublishedProgress, newest: float, curve: loss_curve.LossCurve, aim: float | None) -> float:
    """Return the step at which the training ends, as claimed or predicted, a few times as far as it is now at most."""
    total = found["job"].get("total_steps")
    end = total if total is not None else newest + curve.steps_to(aim).decaying if aim is not None else _AHEAD * newest
    return max(min(end, _FARTHEST * newest), newest, 1.0)
