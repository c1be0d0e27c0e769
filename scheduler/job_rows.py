"""The rows of jobs in one snapshot after the other: which row a job of an earlier snapshot has now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np

from tiresias.scheduler.model import Ints


class JobRows:
    """The rows of the newest snapshot, and where the jobs of the one before it are now.

    Attributes:
        ids: The ids of the jobs, row by row.
        of: The row of each job by its id.
    """

    def __init__(self) -> None:
        self.ids: Sequence[str] = ()
        self.of: Mapping[str, int] = {}
        self._before: Sequence[str] = ()
        self._now: Ints = np.empty(0, np.int64)

    def follow(self, ids: Sequence[str]) -> None:
        """Take the jobs of the next snapshot. O(jobs) where they are other ones."""
        if ids is self.ids or ids == self.ids:
            return
        self._before, self.ids = self.ids, ids
        self.of = dict(zip(ids, range(len(ids)), strict=True))
        self._now = self._places(self._before)

    def now(self, ids: Sequence[str]) -> Ints | None:
        """Return where the jobs of an earlier snapshot are now, shape (jobs of it,); -1: they are gone. None: in the same rows.

        O(1) for the newest snapshot and for the one before it, if `ids` is their own object.
        """
        if ids is self.ids or (ids is not self._before and ids == self.ids):
            return None
        return self._now if ids is self._before else self._places(ids)

    def _places(self, ids: Sequence[str]) -> Ints:
        return np.fromiter(map(self.of.get, ids, repeat(-1)), np.int64, len(ids))
