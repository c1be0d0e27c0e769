"""Ranks that are slower than the others of their job (Optimus, EuroSys '18, section 5.2).

Each rank reports how long its own work of a step takes: with asynchronous training a whole step, with synchronous training the time
from the end of one exchange of gradients until it is ready for the next one. A rank is a straggler where its own work takes
twice the median or longer: its speed is at most half of the median. In synchronous training all ranks wait for it. The gap between
its arrival and the median one is what a step would be shorter without it. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Floats

SLOWER = 2.0  # times the median
LEAST_RANKS = 3  # of two, neither is known to be the slow one


class Stragglers(NamedTuple):
    """The result for the ranks of a job.

    Attributes:
        slow: Which ranks are stragglers, shape (ranks,).
        ratio: The own work of each rank through the median; nan: not known, shape (ranks,).
        gap: Seconds of a step for which the other ranks wait, if they train synchronously.
    """

    slow: Bools
    ratio: Floats
    gap: float


def stragglers(own: Floats) -> Stragglers:
    """Return the ranks that are slower than half the median.

    Args:
        own: Seconds of own work of a step of each rank, shape (ranks,). What is not finite and above 0 is not known.
    """
    known = np.isfinite(own) & (own > 0.0)
    ratio = np.full(len(own), np.nan)
    if known.sum() < LEAST_RANKS:
        return Stragglers(np.zeros(len(own), np.bool_), ratio, 0.0)
    median = float(np.median(own[known]))
    ratio[known] = own[known] / median
    slow = known & (np.nan_to_num(ratio) >= SLOWER)
    gap = float(own[known].max()) - median if slow.any() else 0.0
    return Stragglers(slow, ratio, gap)


def replacement_gain(ratio: float, horizon: float) -> float:
    """Return the seconds that a job gains within a time if its slowest rank becomes as fast as the median one.

    The gain of synchronous training, in which all ranks wait; of asynchronous training it is the most that can be gained.

    Args:
        ratio: Own work of the slowest rank through the median, 1 or more.
        horizon: The time, seconds.
    """
    return horizon * (1.0 - 1.0 / max(ratio, 1.0))
