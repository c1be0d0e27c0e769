"""The walk of pseudocode 2 (lines 9 to 18): which jobs hold GPUs when everything has settled."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.evict.eviction import Walk
from tiresias.scheduler.model import Bools, Ints, Snapshot


class ByRank:
    """All victims of the walk release their GPUs, as in the paper."""

    def released(self, snapshot: Snapshot, walk: Walk) -> Bools:
        """Return True for each job of the walk."""
        return np.ones(len(walk.rows), np.bool_)


BY_RANK = ByRank()


def walk(cost: Ints, capacity: int, blocks: bool) -> Bools:
    """Return which jobs are selected: in order, those that fit; with `blocks` none after the first that does not fit.

    O(jobs x different sizes): the first job that does not fit is larger than what remains, so all jobs of its size are
    skipped at once.

    Args:
        cost: GPUs of each job in the order of the walk, shape (jobs,).
        capacity: GPUs of all selected jobs together, at most.
        blocks: Whether no job overtakes the first one that does not fit.
    """
    if blocks:
        return np.cumsum(cost) <= capacity
    taken = np.zeros(len(cost), bool)
    left = np.arange(len(cost))
    while left.size:
        left = left[cost[left] <= capacity]
        total = np.cumsum(cost[left])
        fit = int(np.searchsorted(total, capacity, side="right"))
        taken[left[:fit]] = True
        capacity -= int(total[fit - 1]) if fit else 0
        left = left[fit + 1 :]
    return taken
