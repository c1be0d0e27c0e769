"""Ranks and parameter servers that are slower than the others of their job (Optimus, EuroSys '18, section 5.2).

Each rank reports how long its own work of a step takes: with asynchronous training a whole step, with synchronous training the time
from the end of one exchange of gradients until it is ready for the next one. A rank is a straggler where its own work takes
twice the median or longer: its speed is at most half of the median. In synchronous training all ranks wait for it. The gap between
its arrival and the median one is what a step would be shorter without it.

A parameter server is compared with the other servers, by the same rule. Its own work is often a small part of a step, and the ratio
of two small times is mostly noise: it is a straggler only where the gap is also a part of the step that is worth a change. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Floats

SLOWER = 2.0  # times the median
LEAST_RANKS = 3  # of two, neither is known to be the slow one
LEAST_GAP = 0.05  # of a step, for which the workers wait for a server that counts as slow


class SlowNode(NamedTuple):
    """A node with stragglers of a job.

    Attributes:
        ratio: The own work there through the median, the largest.
        speedup: How many times as fast a step is with the median work in its place.
    """

    ratio: float
    speedup: float

    def worst(self, other: SlowNode) -> SlowNode:
        """Return the larger of each number."""
        return SlowNode(max(self.ratio, other.ratio), max(self.speedup, other.speedup))


class Stragglers(NamedTuple):
    """The result for the ranks of a job.

    Attributes:
        slow: Which ranks are stragglers, shape (ranks,).
        ratio: The own work of each rank through the median; nan: not known, shape (ranks,).
        gap: Seconds of a step for which the other ranks wait, if they train synchronously.
        speedup: How many times as fast a step is with the median work in place of the rank's; nan: not known, shape (ranks,).
    """

    slow: Bools
    ratio: Floats
    gap: float
    speedup: Floats

    def by_node(self, nodes: Sequence[str]) -> dict[str, SlowNode]:
        """Return the nodes with stragglers. nodes: of each rank; "": not known."""
        found: dict[str, SlowNode] = {}
        for row in np.flatnonzero(self.slow).tolist():
            if node := nodes[row]:
                one, other = SlowNode(float(self.ratio[row]), float(self.speedup[row])), found.get(node)
                found[node] = one.worst(other) if other else one
        return found


def stragglers(own: Floats) -> Stragglers:
    """Return the ranks that are slower than half the median.

    Args:
        own: Seconds of own work of a step of each rank, shape (ranks,). What is not finite and above 0 is not known.
    """
    known = np.isfinite(own) & (own > 0.0)
    ratio = np.full(len(own), np.nan)
    if known.sum() < LEAST_RANKS:
        return Stragglers(np.zeros(len(own), np.bool_), ratio, 0.0, ratio)
    median = float(np.median(own[known]))
    ratio[known] = own[known] / median
    slow = known & (np.nan_to_num(ratio) >= SLOWER)
    gap = float(own[known].max()) - median if slow.any() else 0.0
    return Stragglers(slow, ratio, gap, ratio)


def slow_servers(own: Floats, whole: Floats) -> Stragglers:
    """Return the parameter servers that are slower than half the median, and for which a step takes LEAST_GAP longer.

    Args:
        own: Seconds of own work of a step of each server, shape (servers,).
        whole: Seconds of a whole step of each server, shape (servers,). What is not finite and above 0 is not known.
    """
    found = stragglers(own)
    gap = own - own / found.ratio  # from the median
    is_known = np.isfinite(whole) & (whole > 0.0) & (gap < whole)
    part = np.divide(gap, whole, out=np.full(len(own), np.nan), where=is_known)
    slow = found.slow & (np.nan_to_num(part) >= LEAST_GAP)
    return Stragglers(slow, found.ratio, found.gap if slow.any() else 0.0, 1.0 / (1.0 - part))


def replacement_gain(speedup: float, horizon: float) -> float:
    """Return the seconds that a job gains within a time if its slowest rank or server becomes as fast as the median one.

    The gain of synchronous training, in which all ranks wait; of asynchronous training it is the most that can be gained.

    Args:
        speedup: How many times as fast a step is then, 1 or more.
        horizon: The time, seconds.
    """
    return horizon * (1.0 - 1.0 / max(speedup, 1.0))
