"""Sort keys of jobs that are known already: those of jobs that are shown otherwise, such as in another state, are computed anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Bools, Ints, Jobs
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows, SortKeys
from tiresias.scheduler.table_rows import rows_of

Column = npt.NDArray[np.generic]
_SHOWN = tuple(name for name, value in vars(Rows).items() if isinstance(value, property))  # all that keys depend on


@dataclass(frozen=True, slots=True, eq=False)
class KnownKeys:
    """The keys of all jobs at one moment.

    Attributes:
        jobs: The jobs as they were shown.
        time: Epoch seconds.
        config, policy: The policy.
        keys: As `IncrementalPolicy.sort_keys` returns them.
        promoted: The promoted jobs.
    """

    jobs: Jobs
    time: float
    config: PolicyConfig
    policy: IncrementalPolicy
    keys: SortKeys
    promoted: Bools

    def of(self, jobs: Jobs, rows: Ints) -> tuple[SortKeys, Bools]:
        """Return the keys of some jobs, and which are promoted, shape (rows,). `jobs`: the same jobs as they are shown now."""
        own = np.flatnonzero(self._differ(jobs)[rows])
        known = [column[rows] for column in (self.promoted, *self.keys)]
        if not len(own):
            return known[1:], self.promoted[rows]
        keys, promoted = self.policy.sort_keys(rows_of(jobs, rows[own]), self.time, self.config)
        known = [_with(column, own, new) for column, new in zip(known, (promoted, *keys), strict=True)]
        return known[1:], known[0].astype(np.bool_)

    def _differ(self, jobs: Jobs) -> Bools:
        """Return the jobs that are shown otherwise, shape (jobs,)."""
        found = np.zeros(len(jobs), np.bool_)
        for name in _SHOWN:
            now, before = getattr(jobs, name), getattr(self.jobs, name)
            if now is not before:
                found |= True if now is None or before is None else now != before
        return found


def _with(column: Column, rows: Ints, values: Column) -> Column:
    """Return a column with other values in some rows."""
    found = column.astype(np.result_type(column, values))
    found[rows] = values
    return found
