"""What jobs hold on single nodes: an index of the allocations of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from tiresias.scheduler.model import Bools, Ints, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED
from tiresias.scheduler.stable_order import stable_order

Key = TypeVar("Key", int, str)


class HeldByNode:
    """What some jobs hold on each node. O(allocations) in numpy, and for each node that is asked for the jobs there."""

    def __init__(self, snapshot: Snapshot, jobs: Bools) -> None:
        """`jobs`: those that count, shape (jobs,)."""
        held, self._ids = snapshot.allocations, snapshot.jobs.id
        rows = np.flatnonzero(jobs[held.job])
        rows = rows[stable_order(held.node[rows])]
        self._first = np.searchsorted(held.node[rows], np.arange(len(snapshot.nodes) + 1)).tolist()
        self._node, self._job, self._amount = held.node[rows], held.job[rows], held.resources.amount[rows, :COUNTED]
        self._found: dict[int, Mapping[str, Sequence[float]]] = {}

    def on(self, node: int) -> Mapping[str, Sequence[float]]:
        """Return GPUs, CPUs and MiB of each job, by id, on a node."""
        if node not in self._found:
            self._found[node] = self._read(node)
        return self._found[node]

    def of(self, jobs: Sequence[int]) -> Mapping[int, Sequence[float]]:
        """Return what some jobs, by row, hold together on each of their nodes. O(what they hold), once O(allocations) in numpy."""
        by_job, job = self._by_job
        ranges = [slice(job.searchsorted(row), job.searchsorted(row, "right")) for row in jobs]
        at = np.concatenate([by_job[:0], *(by_job[each] for each in ranges)])
        return _sums(self._node[at].tolist(), self._amount[at].tolist())

    @cached_property
    def _by_job(self) -> tuple[Ints, Ints]:
        """The places of the allocations job by job, and the row of the job of each."""
        order = stable_order(self._job)
        return order, self._job[order]

    def _read(self, node: int) -> Mapping[str, Sequence[float]]:
        here = slice(self._first[node], self._first[node + 1])
        return _sums([self._ids[row] for row in self._job[here].tolist()], self._amount[here].tolist())


def _sums(keys: Sequence[Key], amounts: Sequence[list[float]]) -> dict[Key, Sequence[float]]:
    """Return the sum of the amounts of each key."""
    found = dict[Key, Sequence[float]]()
    for key, amount in zip(keys, amounts, strict=True):
        before = found.get(key)
        found[key] = amount if before is None else [a + b for a, b in zip(before, amount, strict=True)]
    return found
