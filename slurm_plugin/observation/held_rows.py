"""What jobs hold on nodes as arrays, kept from cycle to cycle: one row for each pair of a job and a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats, Ints
from tiresias.slurm_plugin.backends.interface import NodeShare
from tiresias.slurm_plugin.backends.record_values import ObjectPlaces, are_same

Shares = Sequence[Sequence[NodeShare]]


class HeldRows(NamedTuple):
    """Arrays of shape (rows,) and, for GPUs, CPUs and MiB, (rows, 3). They are never written to."""

    job: Ints
    node: Ints
    amounts: Floats

    def by_node(self, nodes: int) -> Floats:
        """Return the sums of the nodes, shape (nodes, 3)."""
        return np.stack([np.bincount(self.node, column, nodes) for column in self.amounts.T], axis=1)


_NONE = HeldRows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3)))


def held_rows(shares: Shares, row_of: Mapping[str, int]) -> HeldRows:
    """Return what each job holds on the nodes of `row_of`. O(jobs + shares)."""
    each = list(chain.from_iterable(shares))
    job = np.repeat(np.arange(len(shares)), np.fromiter(map(len, shares), np.int64, len(shares)))
    node = np.fromiter(map(row_of.get, map(attrgetter("node"), each), repeat(-1)), np.int64, len(each))
    columns = [np.fromiter(map(attrgetter(name), each), np.float64, len(each)) for name in ("gpus", "cpus", "memory")]
    here = node >= 0
    return HeldRows(job[here], node[here], np.stack(columns, axis=1)[here])


class KeptHeldRows:
    """The rows of the newest call. Those of a job are computed again where its shares are not the same object as then."""

    def __init__(self) -> None:
        self._shares: Shares = ()
        self._row_of: Mapping[str, int] = {}
        self._rows = _NONE

    def of(self, shares: Shares, row_of: Mapping[str, int]) -> HeldRows:
        """Return what each job holds on the nodes of `row_of`. O(jobs), and O(shares) of Python for those that have changed."""
        if row_of is not self._row_of:
            self._shares, self._rows = (), _NONE
        if not are_same(shares, self._shares):
            self._rows = self._renewed(shares, row_of)
        self._shares, self._row_of = shares, row_of
        return self._rows

    def _renewed(self, shares: Shares, row_of: Mapping[str, int]) -> HeldRows:
        """Return the rows: known ones are copied from the newest call, the others are appended to these first."""
        holds = np.flatnonzero(np.fromiter(map(len, shares), np.int64, len(shares)))
        place = ObjectPlaces(list(map(shares.__getitem__, holds.tolist()))).in_others(ObjectPlaces(self._shares))
        new = held_rows(list(map(shares.__getitem__, holds[place < 0].tolist())), row_of)
        place[place < 0] = len(self._shares) + np.arange(np.count_nonzero(place < 0))
        job = np.concatenate((self._rows.job, len(self._shares) + new.job))
        first, count = (
            np.searchsorted(job, place, "left"),
            np.bincount(job, minlength=len(self._shares) + len(holds))[place],
        )
        before = np.cumsum(count) - count
        rows = np.arange(count.sum()) + np.repeat(first - before, count)
        node = np.concatenate((self._rows.node, new.node))[rows]
        return HeldRows(np.repeat(holds, count), node, np.concatenate((self._rows.amounts, new.amounts))[rows])
