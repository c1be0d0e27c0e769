"""Prepares a loss curve for fitting: outliers replaced, and the part since the last drop of the learning rate (section 3.1)."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tiresias.scheduler.model import Floats

NEIGHBOURS = 5  # points on each side that an outlier is compared with
LEAST_POINTS = 6  # of a part of a curve that is fitted alone
_SUDDEN = 4.0  # a drop is so many times as large as the changes around it


def without_outliers(losses: Floats) -> Floats:
    """Return the losses; each below all later or above all earlier neighbours is replaced by the mean of its two neighbours.

    The first and the last loss have neighbours on one side only, and are kept.
    """
    if len(losses) < 3:
        return losses
    before = np.concatenate((np.full(NEIGHBOURS, -np.inf), losses[:-1]))
    after = np.concatenate((losses[1:], np.full(NEIGHBOURS, np.inf)))
    highest = sliding_window_view(before, NEIGHBOURS).max(axis=1)
    lowest = sliding_window_view(after, NEIGHBOURS).min(axis=1)
    outside = (losses > highest) | (losses < lowest)
    outside[[0, -1]] = False
    between = np.interp(np.arange(len(losses)), [0, 1], [0, 0])
    between[1:-1] = (losses[:-2] + losses[2:]) / 2.0
    return np.where(outside, between, losses)


def last_drop(losses: Floats) -> int:
    """Return the index of the first loss after the last sudden drop, as after a lower learning rate; 0: there is none.

    A drop is sudden if the losses fall further than several times any change among the four before and the four after it. The part
    that follows has LEAST_POINTS at least.
    """
    falls = -np.diff(losses)
    found = 0
    for at in range(4, len(falls) - LEAST_POINTS + 1):
        around = np.abs(np.concatenate((falls[at - 4 : at], falls[at + 1 : at + 5])))
        if falls[at] > _SUDDEN * around.max() and falls[at] > 0.0:
            found = at + 1
    return found
