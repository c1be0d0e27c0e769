"""The losses that a job has reported, in bounded memory: after many reports, the means of equally many of them each."""

from __future__ import annotations

import math
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


class LossHistory:
    """The reports of one job. Each costs O(1) in the mean.

    A report whose step or loss is negative, infinite or nan is not kept. A step below the newest one is that of a run that was
    restored from a checkpoint: what had been reported from there on is forgotten.

    Attributes:
        reports_a_point: As many reports are the mean of one point; it doubles when POINTS_KEPT are full.
        refused: Number of reports that were not kept.
    """

    def __init__(self) -> None:
        self.reports_a_point, self.refused = 1, 0
        self._points: list[tuple[float, float]] = []
        self._newest: list[tuple[float, float]] = []  # fewer than a point's reports

    def add(self, step: float, loss: float) -> None:
        """Take one report."""
        if not (0.0 <= step <= _MOST_STEPS and 0.0 <= loss < math.inf):  # false of nan
            self.refused += 1
            return
        self._forget_from(step)
        self._newest.append((step, loss))
        if len(self._newest) >= self.reports_a_point:
            self._points.append(_mean(self._newest))
            self._newest = []
        if len(self._points) > POINTS_KEPT:
            self._halve()

    def points(self) -> LossPoints:
        """Return the curve so far."""
        rows = self._points + ([_mean(self._newest)] if self._newest else [])
        table = np.array(rows, np.float64).reshape(-1, 2)
        return LossPoints(table[:, 0], table[:, 1])

    def _forget_from(self, step: float) -> None:
        while self._newest and self._newest[-1][0] >= step:
            self._newest.pop()
        while not self._newest and self._points and self._points[-1][0] >= step:
            self._points.pop()

    def _halve(self) -> None:
        last = self._points[POINTS_KEPT:]
        pairs = zip(self._points[:POINTS_KEPT:2], self._points[1:POINTS_KEPT:2], strict=True)
        self._points = [_mean(pair) for pair in pairs]
        self._newest = last + self._newest
        self.reports_a_point *= 2


def _mean(reports: object) -> tuple[float, float]:
    table = np.array(reports, np.float64)
    step, loss = table.mean(axis=0).tolist()
    return step, loss
