"""Pools that see what they saw at the decision before, but for service and times.

One job ends or arrives, and the pools of all others see nothing new. So the columns of all pools are compared at once, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from operator import is_not, ne
from typing import Any

import numpy as np

from tiresias.scheduler.kept_plans import COMPARED_JOBS, has_arrays
from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.pool_ranks import PooledJobs, PoolRanks


@dataclass(frozen=True, slots=True, eq=False)
class JobPairs:
    """The jobs that two snapshots have, as rows of both.

    Attributes:
        now: Their rows, rising, shape (jobs of both,).
        before: Their rows in the snapshot before.
        same: Whether each snapshot has them in the same rows, and no others.
    """

    now: Ints
    before: Ints
    same: bool

    @classmethod
    def of(cls, jobs: int, moved: Ints | None) -> JobPairs:
        """Return them from the number of jobs and what `JobRows.now` returns."""
        if moved is None:
            every = np.arange(jobs)
            return cls(every, every, True)
        before = np.full(jobs, -1, np.int64)
        there = np.flatnonzero(moved >= 0)
        before[moved[there]] = there
        now = np.flatnonzero(before >= 0)
        return cls(now, before[now], False)

    def now_of(self, rows: Ints) -> Ints:
        """Return the rows now of jobs that both have, from those in the snapshot before."""
        if self.same:
            return rows
        order = np.argsort(self.before)
        found: Ints = self.now[order[np.searchsorted(self.before, rows, sorter=order)]]
        return found

    def differ(self, now: Any, before: Any) -> Bools:
        """Return which of them differ in a column, shape (jobs of both,). All do if the columns are of different kinds."""
        if (now is before and self.same) or (now is None and before is None) or not len(self.now):
            return np.zeros(len(self.now), np.bool_)
        if type(now) is not type(before) or bool(len(now)) != bool(len(before)):
            return np.ones(len(self.now), np.bool_)
        if not len(now):
            return np.zeros(len(self.now), np.bool_)
        if isinstance(now, np.ndarray):
            found: Bools = (now != before) if self.same else now[self.now] != before[self.before]
            return found
        return self._differ_in_objects(now, before)

    def _differ_in_objects(self, now: Sequence[Any], before: Sequence[Any]) -> Bools:
        if not self.same:
            now, before = (
                [column[row] for row in rows.tolist()] for column, rows in ((now, self.now), (before, self.before))
            )
        found = np.fromiter(map(is_not, now, before), np.bool_, len(self.now))
        other = found.tolist()
        differ = _other_arrays if has_arrays(now) else ne
        found[found] = list(map(differ, compress(now, other), compress(before, other)))
        return found


def _other_arrays(one: Any, other: Any) -> bool:
    """Return whether two values differ, of which either may be an array or None."""
    return not np.array_equal(one, other) if one is not None and other is not None else one is not other


@dataclass(frozen=True, slots=True, eq=False)
class UnchangedPools:
    """Pools that see what they saw at the newest decision but for service and times.

    Attributes:
        pairs: The jobs of both snapshots.
        pools: Which pools, shape (pools,).
    """

    pairs: JobPairs
    pools: Bools


def pools_with_other_jobs(now: PooledJobs, before: PooledJobs, pairs: JobPairs, held: Bools) -> Bools:
    """Return the pools whose jobs, or what is shown of them besides service and times, are not what they were, shape (pools,).

    Args:
        now: The jobs.
        before: Those of the decision before.
        pairs: Their rows.
        held: Which of the pairs hold something else than before, shape (jobs of both,).
    """
    pools = len(now.stages)
    if pools != len(before.stages):
        return np.ones(pools, np.bool_)
    differ = held | (now.pool[pairs.now] != before.pool[pairs.before])
    for name in COMPARED_JOBS:
        differ |= pairs.differ(getattr(now.jobs, name), getattr(before.jobs, name))
    if not pairs.same:
        differ[1:] |= pairs.before[1:] < pairs.before[:-1]
    found = _pools_with(now.pool[pairs.now[differ]], pools) | _pools_with(before.pool[pairs.before[differ]], pools)
    size, kept = (np.bincount(each[each >= 0], minlength=pools) for each in (now.pool, now.pool[pairs.now]))
    size_before = np.bincount(before.pool[before.pool >= 0], minlength=pools)
    found |= (size != kept) | (size != size_before)
    return found


def pools_with_other_ranks(now: PoolRanks, before: PoolRanks, pairs: JobPairs, pools: Bools) -> Bools:
    """Return the pools for which service and times count: by another order, by protected jobs, or otherwise; shape (pools,).

    Args:
        now: The ranks.
        before: Those of the decision before.
        pairs: The rows of the jobs.
        pools: Pools that have the jobs that they had, shape (pools,). Others are not compared.
    """
    one, other = now.pooled, before.pooled
    differ = pairs.differ(now.queue, before.queue) | pairs.differ(now.promoted, before.promoted)
    differ |= pairs.differ(one.protected, other.protected)
    if one.times_count.any() or other.times_count.any():
        differ |= one.times_count[pairs.now] | other.times_count[pairs.before]
    found: Bools = _pools_with(one.pool[pairs.now[differ]], len(pools)) | ~now.ranked
    return found | _with_other_order(now, before, pairs, pools & ~found)


def _with_other_order(now: PoolRanks, before: PoolRanks, pairs: JobPairs, pools: Bools) -> Bools:
    """Return which of some pools have another order."""
    row_before = np.full(len(now.pooled.jobs), -1, np.int64)
    row_before[pairs.now] = pairs.before
    chosen, chosen_before = (ranks.order[pools[ranks.pooled.pool[ranks.order]]] for ranks in (now, before))
    moved = chosen[row_before[chosen] != chosen_before]
    return _pools_with(now.pooled.pool[moved], len(pools))


def _pools_with(pools: Ints, count: int) -> Bools:
    """Return the pools that are named, shape (pools,). -1 names none."""
    found = np.zeros(count + 1, np.bool_)
    found[pools] = True
    return found[:-1]
