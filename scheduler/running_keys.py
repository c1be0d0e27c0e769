"""The keys of the running jobs of a `JobQueue`, read from the last one: a walk looks at the last few of them only.

So only the last keys are kept sorted. Those before them are sorted when one of them is read, which happens seldom.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Key: TypeAlias = Any  # a tuple; comparisons of numbers of numpy in it return its booleans
Columns: TypeAlias = Sequence[npt.NDArray[np.generic]]  # arrays of shape (jobs,), one a part of the key
_BEFORE_ALL: Final[Key] = ()
_FEWEST: Final = 32  # keys that are sorted at once
_GROWTH: Final = 4  # how many times as many sorted keys are kept before the first half of them is given up


class RunningKeys:
    """The keys of running jobs: stored ones, after those that `drift` computes."""

    def __init__(self) -> None:
        self._key: dict[int, Key] = {}  # the stored key of each row
        self._last: list[Key] = []  # the stored keys from `_bound` on, sorted
        self._bound = _BEFORE_ALL
        self._most = _GROWTH * _FEWEST  # sorted keys, at most
        self._drifting: _LastFirst | None = None
        self._count = 0  # of the drifting keys

    def __len__(self) -> int:
        return len(self._key) + self._count

    def add(self, row: int, key: Key) -> None:
        """Store the key of a row, in place of the one that it has."""
        before = self._key.get(row)
        if before is not None and before >= self._bound:
            del self._last[bisect_left(self._last, before)]
        self._key[row] = key
        if key >= self._bound:
            insort(self._last, key)
            if len(self._last) > self._most:
                del self._last[: self._most // 2]
                self._bound = self._last[0]

    def remove(self, row: int) -> bool:
        """Remove the stored key of a row. False: it has none."""
        key = self._key.pop(row, None)
        if key is None:
            return False
        if key >= self._bound:
            del self._last[bisect_left(self._last, key)]
        return True

    def drift(self, count: int, keys: Callable[[], Columns]) -> None:
        """Set `count` keys, which come before all stored ones. `keys` is called only when one of them is read."""
        self._count, self._drifting = count, _LastFirst(keys) if count else None

    def from_last(self, place: int) -> Key:
        """Return the key of a place: 0 for the last one, 1 for the one before it."""
        if place >= len(self._last) and len(self._last) < len(self._key):
            self._sort(_FEWEST + 2 * place)
        if place < len(self._last):
            return self._last[-1 - place]
        assert self._drifting
        return self._drifting.at(place - len(self._last))

    def _sort(self, count: int) -> None:
        """Sort so many of the last stored keys."""
        self._last = sorted(self._key.values())[-count:]
        self._bound = self._last[0] if count < len(self._key) else _BEFORE_ALL
        self._most = _GROWTH * count


class _LastFirst:
    """Keys that are sorted when the first one is read, and made as far as they are read."""

    def __init__(self, keys: Callable[[], Columns]) -> None:
        self._keys_of = keys
        self._keys: Columns = ()
        self._rows: npt.NDArray[np.int64] | None = None  # the last one first
        self._made: list[Key] = []

    def at(self, place: int) -> Key:
        """Return the key of a place: 0 for the last one."""
        while place >= len(self._made):
            self._make_more()
        return self._made[place]

    def _make_more(self) -> None:
        if self._rows is None:
            self._keys = self._keys_of()
            self._rows = np.lexsort(tuple(reversed(self._keys)))[::-1]
        rows = self._rows[len(self._made) : 2 * len(self._made) + 8]
        self._made += zip(*(key[rows].tolist() for key in self._keys), strict=True)
