"""What a snapshot shows of the jobs that hold GPUs, in columns, so that two snapshots are compared by arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Snapshot
from tiresias.scheduler.stable_order import stable_order
from tiresias.scheduler.tenants.hardware_demand import is_reclaimable


@dataclass(frozen=True, slots=True, eq=False)
class HeldGangs:
    """The jobs with GPUs.

    Attributes:
        rows: Their rows in the snapshot, rising.
        jobs: The ids of all jobs of the snapshot.
        of_job: What is shown of each of them besides its allocations, as one number, shape (jobs with GPUs,).
        first: Where the allocations of each begin in `shares`, then their number, shape (jobs with GPUs + 1,).
        places: The row of each allocation in the snapshot, job by job, in the order of the snapshot.
        shares: Where each of them is, and the type of its owned cell, as one number, shape (allocations with GPUs,).
        amounts: What all allocations of the snapshot hold, shape (allocations, columns of the resources).
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
        if self.amounts.shape[1] != before.amounts.shape[1]:  # no parts of nodes were known before
            return np.ones(len(self), np.bool_)
        at, count, count_before = self.places_in(before), np.diff(self.first), np.diff(before.first)
        same = at >= 0
        known = np.flatnonzero(same)
        there = at[known]
        same[known] = (self.of_job[known] == before.of_job[there]) & (count[known] == count_before[there])
        known = np.flatnonzero(same)
        here, there = _ranges(self.first[known], count[known]), _ranges(before.first[at[known]], count[known])
        differs = self.shares[here] != before.shares[there]
        differs |= _differ(self.amounts, self.places[here], before.amounts, before.places[there])
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


_NODE_BITS, _STATE_BITS = 32, 8  # of the number of a node, and of a state
_NOTHING = np.empty(0, np.int64)
NO_GANGS = HeldGangs(_NOTHING, (), _NOTHING, np.zeros(1, np.int64), _NOTHING, _NOTHING, np.empty((0, 0)))


class _Numbers(dict[str, int]):
    """A number for each text. One that has none is given the next one."""

    def __missing__(self, text: str) -> int:
        found = self[text] = len(self)
        return found


class HeldGangsReader:
    """Reads the columns of one snapshot after the other. Texts have the same numbers in all of them."""

    def __init__(self) -> None:
        self._number = _Numbers({"": 0})
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
        places = np.flatnonzero(held.resources["gpus"] >= 1)
        places = places[stable_order(held.job[places])]
        job = held.job[places]
        first = np.flatnonzero(np.concatenate((job[:1] >= 0, job[1:] != job[:-1])))
        rows, share = job[first], held.node[places]
        if held.owned_cell:
            share = (self._numbers_of_cells(held.owned_cell)[places] << _NODE_BITS) | share
        cluster = self._numbers(clusters)[cluster_of[rows]] if len(clusters) else np.zeros(len(rows), np.int64)
        shown = ((jobs.state, _STATE_BITS), (jobs.movable, 1), (is_reclaimable(jobs), 1))
        for column, bits in shown:
            cluster = (cluster << bits) | column[rows]
        amounts = held.resources.amount
        return HeldGangs(rows, jobs.id, cluster, np.append(first, len(places)), places, share, amounts)

    def _numbers_of_cells(self, cells: Sequence[str]) -> Ints:
        if cells is not self._cells:
            self._cells, self._of_cells = cells, self._numbers(cells)
        return self._of_cells

    def _numbers(self, texts: Sequence[str]) -> Ints:
        return np.fromiter(map(self._number.__getitem__, texts), np.int64, len(texts))


def _differ(one: Floats, here: Ints, other: Floats, there: Ints) -> Bools:
    """Return which rows of two tables differ, shape (rows,)."""
    found = np.zeros(len(here), np.bool_)
    for column in (
        one.take(here, axis=0) != other.take(there, axis=0)
    ).T:  # few columns and many rows: faster than `any`
        found |= column
    return found


def _ranges(first: Ints, count: Ints) -> Ints:
    """Return the numbers from each first one, so many of each, one range after the other."""
    ends = np.cumsum(count)
    return np.repeat(first - ends + count, count) + np.arange(int(ends[-1]) if len(ends) else 0)
