"""What a snapshot shows of the jobs that hold GPUs, in columns, so that two snapshots are compared by arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.job_rows import JobRows
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
        amounts: What each of them holds, shape (allocations with GPUs, columns of the resources).
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

    def changed(self, before: HeldGangs, rows: JobRows) -> tuple[Bools, Ints]:
        """Compare them with those of an earlier snapshot. O(jobs + allocations) in numpy.

        Args:
            before: The earlier ones.
            rows: The rows of the jobs now.

        Returns:
            Which jobs are shown otherwise than before, or were not; and the places in `before` of those that are shown no more.
        """
        at = self._places_in(before, rows.now(before.jobs))
        gone = np.ones(len(before), np.bool_)
        gone[at[at >= 0]] = False
        if self.amounts.shape[1] != before.amounts.shape[1]:  # no parts of nodes were known before
            return np.ones(len(self), np.bool_), np.flatnonzero(gone)
        count, count_before = np.diff(self.first), np.diff(before.first)
        same = at >= 0
        known = np.flatnonzero(same)
        same[known] = (self.of_job[known] == before.of_job[at[known]]) & (count[known] == count_before[at[known]])
        known = np.flatnonzero(same)
        here, there = _allocations_of(self, known, before, at[known])
        differs = _selected(self.shares, here) != _selected(before.shares, there)
        # few columns and many rows: faster than `any`
        for column in (_selected(self.amounts, here) != _selected(before.amounts, there)).T:
            differs |= column
        if differs.any():
            same[np.repeat(known, count[known])[differs]] = False
        return ~same, np.flatnonzero(gone)

    def _places_in(self, other: HeldGangs, moved: Ints | None) -> Ints:
        """Return the place of each job among earlier ones, shape (jobs with GPUs,); -1: it is none of them. `moved`: as of
        `JobRows.now`."""
        row = other.rows if moved is None else moved[other.rows]
        place = np.full(len(self.jobs), -1, np.int64)
        left = np.flatnonzero(row >= 0)
        place[row[left]] = left
        return place[self.rows]


_NODE_BITS, _STATE_BITS = 32, 8  # of the number of a node, and of a state
_MOST_SLICES = 64  # more of them are copied later than single rows
Column = npt.NDArray[Any]
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
        amounts = held.resources.amount.take(places, axis=0)
        return HeldGangs(rows, jobs.id, cluster, np.append(first, len(places)), places, share, amounts)

    def _numbers_of_cells(self, cells: Sequence[str]) -> Ints:
        if cells is not self._cells:
            self._cells, self._of_cells = cells, self._numbers(cells)
        return self._of_cells

    def _numbers(self, texts: Sequence[str]) -> Ints:
        return np.fromiter(map(self._number.__getitem__, texts), np.int64, len(texts))


_Selection = Ints | Sequence[slice]  # of rows


def _allocations_of(one: HeldGangs, gangs: Ints, other: HeldGangs, others: Ints) -> tuple[_Selection, _Selection]:
    """Return the allocations of some jobs in two snapshots, in which each has as many. `gangs`, `others`: their places.

    Most of the jobs follow each other in both, so that a few slices have them all.
    """
    ends = np.flatnonzero((np.diff(gangs) != 1) | (np.diff(others) != 1)) + 1
    if len(ends) >= _MOST_SLICES:
        return _ranges(one.first, gangs), _ranges(other.first, others)
    firsts, lasts = (np.concatenate(each) for each in (([0], ends), (ends - 1, [len(gangs) - 1])))
    return _slices(one.first, gangs, firsts, lasts), _slices(other.first, others, firsts, lasts)


def _slices(first: Ints, gangs: Ints, firsts: Ints, lasts: Ints) -> Sequence[slice]:
    if not len(gangs):
        return ()
    return list(map(slice, first[gangs[firsts]].tolist(), first[gangs[lasts] + 1].tolist()))


def _selected(column: Column, rows: _Selection) -> Column:
    if isinstance(rows, np.ndarray):
        return column[rows]
    return np.concatenate([column[:0], *(column[each] for each in rows)])


def _ranges(first: Ints, gangs: Ints) -> Ints:
    """Return the allocations of jobs, job by job."""
    count = first[gangs + 1] - first[gangs]
    ends = np.cumsum(count)
    return np.repeat(first[gangs] - ends + count, count) + np.arange(int(ends[-1]) if len(ends) else 0)
