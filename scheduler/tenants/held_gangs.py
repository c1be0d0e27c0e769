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
        ids: Their ids.
        jobs: The ids of all jobs of the snapshot.
        of_job: What is shown of each of them besides its allocations, shape (jobs with GPUs, columns).
        first: Where the allocations of each begin in `shares`, then their number, shape (jobs with GPUs + 1,).
        places: The row of each allocation in the snapshot, job by job, in the order of the snapshot.
        shares: What is shown of each of them, shape (allocations with GPUs, columns).
    """

    rows: Ints
    ids: list[str]
    jobs: Sequence[str]
    of_job: Ints
    first: Ints
    places: Ints
    shares: Ints

    def allocations(self, at: int) -> Ints:
        """Return the rows of the allocations of one of the jobs in the snapshot."""
        return self.places[self.first[at] : self.first[at + 1]]

    def changed(self, before: HeldGangs) -> Bools:
        """Return which of the jobs are shown otherwise than before, or were not. O(jobs + allocations)."""
        if self.shares.shape[1] != before.shares.shape[1]:  # there were none, or the parts of the nodes were not known
            return np.ones(len(self.ids), np.bool_)
        at, count, count_before = self.places_in(before), np.diff(self.first), np.diff(before.first)
        same = at >= 0
        known = np.flatnonzero(same)
        there = at[known]
        same[known] = (self.of_job[known] == before.of_job[there]).all(axis=1) & (count[known] == count_before[there])
        known = np.flatnonzero(same)
        here, there = _ranges(self.first[known], count[known]), _ranges(before.first[at[known]], count[known])
        differs = (self.shares[here] != before.shares[there]).any(axis=1)
        same[np.repeat(known, count[known])[differs]] = False
        return ~same

    def places_in(self, other: HeldGangs) -> Ints:
        """Return the place of each job among those of others, shape (jobs with GPUs,); -1: it is none of them."""
        if self.jobs == other.jobs:
            place = np.full(len(self.jobs), -1, np.int64)
            place[other.rows] = np.arange(len(other.rows))
            return place[self.rows]
        by_id = {name: at for at, name in enumerate(other.ids)}
        return np.fromiter((by_id.get(name, -1) for name in self.ids), np.int64, len(self.ids))


_NOTHING = np.empty(0, np.int64)
NO_GANGS = HeldGangs(
    _NOTHING, [], (), np.empty((0, 4), np.int64), np.zeros(1, np.int64), _NOTHING, np.empty((0, 3), np.int64)
)


class HeldGangsReader:
    """Reads the columns of one snapshot after the other. Texts have the same numbers in all of them."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {"": 0}

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
        rows, first = np.unique(held.job[places], return_index=True)
        cells = self._numbers(held.owned_cell) if held.owned_cell else np.zeros(len(gpus), np.int64)
        cluster = self._numbers(clusters)[cluster_of[rows]] if len(clusters) else np.zeros(len(rows), np.int64)
        return HeldGangs(
            rows,
            list(map(jobs.id.__getitem__, rows.tolist())),
            jobs.id,
            np.stack((cluster, jobs.state[rows], jobs.movable[rows], is_reclaimable(jobs)[rows]), axis=1),
            np.append(first, len(places)),
            places,
            np.column_stack((held.node[places], _whole(gpus[places]), cells[places], _whole(_parts(snapshot)[places]))),
        )

    def _numbers(self, texts: Sequence[str]) -> Ints:
        number = self._number
        for text in set(texts).difference(number):
            number[text] = len(number)
        return np.array(list(map(number.__getitem__, texts)), np.int64)


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
