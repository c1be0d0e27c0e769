"""What a snapshot shows of the jobs that hold GPUs, in columns, so that two snapshots are compared by arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Snapshot
from tiresias.scheduler.tenants.hardware_demand import is_reclaimable


@dataclass(frozen=True, slots=True, eq=False)
class HeldGangs:
    """The jobs with GPUs.

    Attributes:
        rows: Their rows in the snapshot, rising.
        jobs: The ids of all jobs of the snapshot.
        of_job: What is shown of each of them besides its allocations, shape (jobs with GPUs, columns).
        first: Where the allocations of each begin in `shares`, then their number, shape (jobs with GPUs + 1,).
        places: The row of each allocation in the snapshot, job by job, in the order of the snapshot.
        shares: What is shown of each of them, shape (allocations with GPUs, columns).
        amounts: All that is held there, shape (allocations with GPUs, columns of the resources).
    """

    rows: Ints
    jobs: Sequence[str]
    of_job: Ints
    first: Ints
    places: Ints
    shares: Ints
    amounts: Floats

    def __len__(self) -> int:
        """Return the number of the jobs with GPUs."""
        return len(self.rows)

    @property
    def ids(self) -> list[str]:
        """The ids of the jobs. O(jobs)."""
        return [self.jobs[row] for row in self.rows.tolist()]

    def id(self, at: int) -> str:
        """Return the id of one of the jobs."""
        found: str = self.jobs[self.rows[at]]
        return found

    def allocations(self, at: int) -> Ints:
        """Return the rows of the allocations of one of the jobs in the snapshot."""
        return self.places[self.first[at] : self.first[at + 1]]

    def changed(self, before: HeldGangs) -> Bools:
        """Return which of the jobs are shown otherwise than before, or were not. O(jobs + allocations)."""
        columns = ((self.shares, before.shares), (self.amounts, before.amounts))
        # no parts of nodes were known before, or there were no jobs
        if any(one.shape[1] != other.shape[1] for one, other in columns):
            return np.ones(len(self), np.bool_)
        at, count, count_before = self.places_in(before), np.diff(self.first), np.diff(before.first)
        same = at >= 0
        known = np.flatnonzero(same)
        there = at[known]
        differs = _differs(self.of_job, known, before.of_job, there)
        same[known] = ~differs & (count[known] == count_before[there])
        known = np.flatnonzero(same)
        here, there = _ranges(self.first[known], count[known]), _ranges(before.first[at[known]], count[known])
        differs = _differs(self.shares, here, before.shares, there) | _differs(
            self.amounts, here, before.amounts, there
        )
        same[np.repeat(known, count[known])[differs]] = False
        return ~same

    def places_in(self, other: HeldGangs) -> Ints:
        """Return the place of each job among those of others, shape (jobs with GPUs,); -1: it is none of them."""
        if self.jobs == other.jobs:
            place = np.full(len(self.jobs), -1, np.int64)
            place[other.rows] = np.arange(len(other.rows))
            return place[self.rows]
        by_id = {name: at for at, name in enumerate(other.ids)}
        return np.fromiter((by_id.get(name, -1) for name in self.ids), np.int64, len(self))


_NOTHING = np.empty(0, np.int64)
NO_GANGS = HeldGangs(
    _NOTHING,
    (),
    np.empty((0, 4), np.int64),
    np.zeros(1, np.int64),
    _NOTHING,
    np.empty((0, 3), np.int64),
    np.empty((0, 3)),
)


class HeldGangsReader:
    """Reads the columns of one snapshot after the other. Texts have the same numbers in all of them."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {"": 0}
        self._cells: Sequence[str] = ()
        self._of_cells: Ints = _NOTHING

    def read(self, snapshot: Snapshot, clusters: Sequence[str], cluster_of: Ints) -> HeldGangs:
        """Return the jobs that hold GPUs.

        Args:
            snapshot: Jobs, nodes and allocations.
            clusters: Names of the virtual clusters.
            cluster_of: Index of each job's virtual cluster there, shape (jobs,).
        """
        jobs, held = snapshot.jobs, snapshot.allocations
        gpus = held.resources["gpus"]
        places = np.flatnonzero(gpus >= 1)
        places = places[np.argsort(held.job[places], kind="stable")]
        job = held.job[places]
        first = np.flatnonzero(np.concatenate((job[:1] >= 0, job[1:] != job[:-1])))
        rows = job[first]
        cells = self._numbers_of_cells(held.owned_cell) if held.owned_cell else np.zeros(len(gpus), np.int64)
        cluster = self._numbers(clusters)[cluster_of[rows]] if len(clusters) else np.zeros(len(rows), np.int64)
        return HeldGangs(
            rows,
            jobs.id,
            np.stack((cluster, jobs.state[rows], jobs.movable[rows], is_reclaimable(jobs)[rows]), axis=1),
            np.append(first, len(places)),
            places,
            np.column_stack((held.node[places], _whole(gpus[places]), cells[places], _whole(_parts(snapshot)[places]))),
            held.resources.amount.take(places, axis=0),
        )

    def _numbers_of_cells(self, cells: Sequence[str]) -> Ints:
        if cells is not self._cells:
            self._cells, self._of_cells = cells, self._numbers(cells)
        return self._of_cells

    def _numbers(self, texts: Sequence[str]) -> Ints:
        number = self._number
        for text in set(texts).difference(number):
            number[text] = len(number)
        return np.fromiter(map(number.__getitem__, texts), np.int64, len(texts))


def _differs(one: Ints | Floats, here: Ints, other: Ints | Floats, there: Ints) -> Bools:
    """Return which rows of two tables differ, shape (rows,)."""
    columns = (one.take(here, axis=0) != other.take(there, axis=0)).T
    found = np.zeros(len(here), np.bool_)
    for column in columns:  # few columns and many rows: faster than `any`
        found |= column
    return found


def _parts(snapshot: Snapshot) -> Floats:
    """Return the GPUs of each allocation on each part of its node, shape (allocations, parts); no columns: none is selected."""
    islands = snapshot.allocations.resources.islands
    return islands if snapshot.nodes.topology.selectable is not None else islands[:, :0]


def _whole(amounts: Floats) -> Ints:
    return np.rint(amounts).astype(np.int64)


def _ranges(first: Ints, count: Ints) -> Ints:
    """Return the numbers from each first one, so many of each, one range after the other."""
    ends = np.cumsum(count)
    return np.repeat(first - ends + count, count) + np.arange(int(ends[-1]) if len(ends) else 0)
