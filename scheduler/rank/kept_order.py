"""The order of jobs, made from the order of the decision before: only the jobs that are no longer in place are sorted.

Most jobs have the ranks that they had. An order that holds between all neighbours is the one that a sort returns: no two jobs are
equal, as ids differ.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiresias.scheduler.job_rows import JobRows
from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.rank.policy import SortKeys, natural, ordered

_MOVED_SHARE = 200  # up to one job of so many is placed anew; for more of them a sort is faster
_FEW = 50  # jobs, of which a sort takes no longer
_MOST_TIES = 200  # neighbours that are compared by their ids


class KeptOrder:
    """The newest order of some jobs."""

    def __init__(self, rows: JobRows | None = None) -> None:
        """`rows`: the rows of the jobs; it follows the snapshots. None: nothing is kept where the jobs are other ones."""
        self._rows = rows or JobRows()
        self._ids: Sequence[str] = ()
        self._order: Ints = np.empty(0, np.int64)

    def of(self, keys: SortKeys, rows: Ints, ids: Sequence[str]) -> Ints:
        """Return the rows of jobs by their keys, as `ordered` does. O(jobs) in numpy where few jobs have other ranks than before.

        Args:
            keys: The most significant first, shape (jobs,).
            rows: The rows of these jobs, rising, shape (jobs,).
            ids: The ids of all jobs.
        """
        found = self._again(keys, rows, ids) if len(self._order) and len(rows) > _FEW else None
        if found is None:
            own = ids if len(rows) == len(ids) else list(map(ids.__getitem__, rows.tolist()))
            found = ordered(keys, own)
        self._ids, self._order = ids, rows[found]
        return self._order

    def _again(self, keys: SortKeys, rows: Ints, ids: Sequence[str]) -> Ints | None:
        """Return the places of the jobs among `rows`, in their order; None: too many ranks differ."""
        before = self._where_now(ids)
        if before is None:
            return None
        if len(rows) == len(ids):
            return reordered(keys, rows, ids, before)
        place = np.full(len(ids), -1, np.int64)
        place[rows] = np.arange(len(rows))
        before = place[before]
        return reordered(keys, rows, ids, before[before >= 0])

    def _where_now(self, ids: Sequence[str]) -> Ints | None:
        """Return the rows now of the jobs of the newest order."""
        if ids is self._ids:
            return self._order
        if ids is not self._rows.ids:
            return None
        now = self._rows.now(self._ids)
        if now is None:
            return self._order
        found = now[self._order]
        return found[found >= 0]


class KeptOrders:
    """The newest orders of the jobs of several pools, by the first pool of each order."""

    def __init__(self, rows: JobRows | None = None) -> None:
        """`rows`: as of `KeptOrder`."""
        self._rows = rows
        self._of: dict[int, KeptOrder] = {}

    def of(self, pool: int) -> KeptOrder:
        """Return the order that begins with a pool."""
        return self._of.setdefault(pool, KeptOrder(self._rows))


def reordered(keys: SortKeys, rows: Ints, ids: Sequence[str], before: Ints) -> Ints | None:
    """Return the places of jobs in `rows` by their keys, as `ordered` has them.

    Args:
        keys: The most significant first, shape (jobs,).
        rows: The rows of these jobs.
        ids: The ids of all jobs.
        before: The places of most of the jobs, most of them in order, each once.

    Returns:
        None: more than one in `_MOVED_SHARE` is not in order, or keys are nan.
    """
    compared = _Compared(keys, rows, ids)
    new = np.ones(len(rows), np.bool_)
    new[before] = False
    bad = np.flatnonzero(~compared.rise(before[:-1], before[1:]))
    if len(bad) + np.count_nonzero(new) > len(rows) // _MOVED_SHARE + 1:
        return None
    left = compared.in_order(before, bad)
    new[before[~left]] = True
    found = compared.inserted(before[left], np.flatnonzero(new).tolist()) if new.any() else before
    after = np.full(len(rows), -1, np.int64)  # the next one of each before
    after[before[:-1]] = before[1:]
    at = np.flatnonzero(after[found[:-1]] != found[1:])
    return found if compared.rise(found[at], found[at + 1]).all() else None


class _Compared:
    """Jobs by their keys.

    Of the first key that is no whole number, `ordered` has jobs without a value, nan, last, in the order of their rows.
    """

    def __init__(self, keys: SortKeys, rows: Ints, ids: Sequence[str]) -> None:
        """As of `reordered`."""
        self._keys: list[Any] = [key for key in keys if key.strides != (0,)]  # the others have one value for all jobs
        self._first = next((at for at, key in enumerate(self._keys) if key.dtype.kind not in "iu"), -1)
        self._rows, self._ids = rows, ids

    def rise(self, one: Ints, other: Ints) -> Bools:
        """Return whether each job of `one` goes before that of `other`. False for all of many that are equal but for their ids."""
        found, tied = np.zeros(len(one), np.bool_), np.ones(len(one), np.bool_)
        for at, key in enumerate(self._keys):
            if 4 * np.count_nonzero(tied) < len(one):
                rows = np.flatnonzero(tied)
                found[rows] = self._rise_by(at, one[rows], other[rows])
                return found
            left, right = key[one], key[other]
            found |= tied & self._is_less(at, left, right, one, other)
            tied &= left == right
        found[tied] = self._rise_by(len(self._keys), one[tied], other[tied])
        return found

    def _rise_by(self, first: int, one: Ints, other: Ints) -> Bools:
        """Return the same by the keys from the first of them on."""
        found, tied = np.zeros(len(one), np.bool_), np.arange(len(one))
        for at, key in enumerate(self._keys[first:], first):
            if not len(tied):
                return found
            left, right = key[one[tied]], key[other[tied]]
            found[tied] = self._is_less(at, left, right, one[tied], other[tied])
            tied = tied[left == right]
        for place in tied.tolist() if len(tied) <= _MOST_TIES else ():
            found[place] = _precedes(self._id(one[place]), self._id(other[place]))
        return found

    def _is_less(self, at: int, left: Any, right: Any, one: Ints, other: Ints) -> Bools:
        found: Bools = left < right
        if at == self._first:
            found |= (right != right) & ((left == left) | (one < other))
        return found

    def _id(self, place: int) -> str:
        found: str = self._ids[self._rows[place]]
        return found

    def in_order(self, order: Ints, bad: Ints) -> Bools:
        """Return the jobs of an order that are likely to be in place, shape (jobs,).

        Args:
            order: The jobs.
            bad: The places of those that do not go before the next one.
        """
        found = np.ones(len(order), np.bool_)
        inside = bad[(bad > 0) & (bad + 1 < len(order))]
        is_first = self.rise(order[inside - 1], order[inside + 1])  # without it the others are in order
        found[bad] = False
        found[inside[~is_first]], found[inside[~is_first] + 1] = True, False
        return found

    def inserted(self, order: Ints, new: Sequence[int]) -> Ints:
        """Return an order with some more jobs."""
        new = sorted(new, key=self._of_job)
        return np.insert(order, [bisect_left(order, self._of_job(place), key=self._of_job) for place in new], new)

    def _of_job(self, place: int) -> tuple[Any, ...]:
        """Return what compares one job with others."""
        keys = [key.item(place) for key in self._keys]
        if self._first >= 0:
            value = keys[self._first]
            keys[self._first] = (True, place) if value != value else (False, value)
        return *keys, natural(self._id(place))


def _precedes(one: str, other: str) -> bool:
    """Return whether an id is sorted before another one by `natural`. Most are numbers of one length."""
    if len(one) == len(other) and one.isascii() and one.isdecimal() and other.isascii() and other.isdecimal():
        return one < other
    return natural(one) < natural(other)
