"""What jobs hold on single nodes: an index of the allocations of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tiresias.scheduler.model import Bools, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED


class HeldByNode:
    """What some jobs hold on each node. O(allocations) in numpy, and for each node that is asked for the jobs there."""

    def __init__(self, snapshot: Snapshot, jobs: Bools) -> None:
        """`jobs`: those that count, shape (jobs,)."""
        held, self._ids = snapshot.allocations, snapshot.jobs.id
        rows = np.flatnonzero(jobs[held.job])
        rows = rows[np.argsort(held.node[rows], kind="stable")]
        self._first = np.searchsorted(held.node[rows], np.arange(len(snapshot.nodes) + 1)).tolist()
        self._job, self._amount = held.job[rows], held.resources.amount[rows, :COUNTED]
        self._found: dict[int, Mapping[str, Sequence[float]]] = {}

    def on(self, node: int) -> Mapping[str, Sequence[float]]:
        """Return GPUs, CPUs and MiB of each job, by id, on a node."""
        if node not in self._found:
            self._found[node] = self._read(node)
        return self._found[node]

    def _read(self, node: int) -> Mapping[str, Sequence[float]]:
        first, end = self._first[node], self._first[node + 1]
        found: dict[str, list[float]] = {}
        for row, amount in zip(self._job[first:end].tolist(), self._amount[first:end].tolist(), strict=True):
            before = found.get(self._ids[row])
            found[self._ids[row]] = amount if before is None else [a + b for a, b in zip(before, amount, strict=True)]
        return found
