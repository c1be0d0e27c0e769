"""The losses that a job has reported, in bounded memory: after many reports, the means of equally many of them each."""

from __future__ import annotations

import math
from array import array
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats

POINTS_KEPT = 512  # an even number
_MOST_STEPS = 1e15


class LossPoints(NamedTuple):
    """A loss curve; arrays of shape (points,).

    Attributes:
        steps: Training steps, rising.
        losses: Losses, 0 or more.
    """

    steps: Floats
    losses: Floats


class LossChanges(NamedTuple):
    """What of a history has changed since the last call of `LossHistory.changes`.

    Attributes:
        after: The points up to this step are as they were; -1: none of them.
        points: All points after it, steps and losses.
    """

    after: float
    points: list[tuple[float, float]]


class LossHistory:
    """The reports of one job. Each costs O(1) in the mean.

    A report whose step or loss is negative, infinite or nan is not kept. A step below the newest one is that of a run that was
    restored from a checkpoint: what had been reported from there on is forgotten.

    Args:
        most: Points that are kept, an even number.

    Attributes:
        reports_a_point: As many reports are the mean of one point; it doubles when `most` are full.
        refused: Number of reports that were not kept.
    """

    def __init__(self, most: int = POINTS_KEPT) -> None:
        self.reports_a_point, self.refused, self._most = 1, 0, most
        self._steps, self._losses = array("d"), array("d")  # of the points
        self._newest: list[tuple[float, float]] = []  # fewer than a point's reports
        self._unchanged = 0  # points

    @classmethod
    def of(cls, points: LossPoints, reports_a_point: int, most: int = POINTS_KEPT) -> LossHistory:
        """Return a history that continues from stored points, which `changes` returned."""
        history = cls(most)
        for step, loss in zip(points.steps.tolist(), points.losses.tolist(), strict=True):
            history.add(step, loss)
        history.reports_a_point, history._unchanged = max(reports_a_point, 1), len(history._steps)
        return history

    def add(self, step: float, loss: float) -> None:
        """Take one report."""
        if not (0.0 <= step <= _MOST_STEPS and 0.0 <= loss < math.inf):  # false of nan
            self.refused += 1
            return
        self._forget_from(step)
        self._newest.append((step, loss))
        if len(self._newest) >= self.reports_a_point:
            self._append(*_mean(self._newest))
            self._newest = []
        if len(self._steps) > self._most:
            self._halve()

    def points(self) -> LossPoints:
        """Return the curve so far."""
        steps, losses = _mean(self._newest) if self._newest else ((), ())
        return LossPoints(np.append(self._steps, steps), np.append(self._losses, losses))

    def changes(self) -> LossChanges:
        """Return what has changed since the last call; without the reports that are no whole point yet."""
        kept, self._unchanged = self._unchanged, len(self._steps)
        after = self._steps[kept - 1] if kept else -1.0
        return LossChanges(after, list(zip(self._steps[kept:], self._losses[kept:], strict=True)))

    def _append(self, step: float, loss: float) -> None:
        self._steps.append(step)
        self._losses.append(loss)

    def _forget_from(self, step: float) -> None:
        while self._newest and self._newest[-1][0] >= step:
            self._newest.pop()
        while not self._newest and self._steps and self._steps[-1] >= step:
            self._steps.pop()
            self._losses.pop()
        self._unchanged = min(self._unchanged, len(self._steps))

    def _halve(self) -> None:
        last = list(zip(self._steps[self._most :], self._losses[self._most :], strict=True))
        steps, losses = (np.reshape(each[: self._most], (-1, 2)).mean(axis=1) for each in (self._steps, self._losses))
        self._steps, self._losses = array("d", steps.tolist()), array("d", losses.tolist())
        self._newest = last + self._newest
        self.reports_a_point *= 2
        self._unchanged = 0


def _mean(reports: list[tuple[float, float]]) -> tuple[float, float]:
    steps, losses = zip(*reports, strict=True)
    return math.fsum(steps) / len(steps), math.fsum(losses) / len(losses)
