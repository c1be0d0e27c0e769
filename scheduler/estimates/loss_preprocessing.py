"""Prepares a loss curve for fitting: outliers replaced, and the part since the last drop of the learning rate (section 3.1)."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tiresias.scheduler.model import Floats

NEIGHBOURS = 5  # points on each side that an outlier is compared with
LEAST_POINTS = 6  # of a part of a curve that is fitted alone
_AROUND = 8  # changes on each side that a drop is compared with
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

    A drop is sudden if the losses fall further than several times any change among the eight before and the eight after it, and
    stay there: the medians of the losses on both sides differ by half of it at least. The part that follows has LEAST_POINTS or
    more.
    """
    falls, found = -np.diff(losses), 0
    for at in range(_AROUND, len(falls) - LEAST_POINTS + 1):
        around = np.abs(np.concatenate((falls[at - _AROUND : at], falls[at + 1 : at + 1 + _AROUND])))
        if falls[at] > _SUDDEN * around.max():
            before, after = losses[at + 1 - _AROUND : at + 1], losses[at + 1 : at + 1 + _AROUND]
            if np.median(before) - np.median(after) > falls[at] / 2.0:
                found = at + 1
    return found
