"""The simulated cluster: equal nodes, GPUs only, and who sits where."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Allocations, Nodes, Start
from tiresias.simulator.cluster_size import ClusterSize


class Occupancy:
    """Which GPUs are whose. Rows are those of the trace."""

    def __init__(self, cluster: ClusterSize) -> None:
        count = cluster.nodes
        self._names = tuple(f"node{index:05}" for index in range(count))
        self._row = {name: row for row, name in enumerate(self._names)}
        self._gpus = np.full(count, cluster.gpus_per_node, np.int64)
        self._free = self._gpus.copy()
        self._seats: dict[int, tuple[tuple[int, int], ...]] = {}
        self._plenty = np.full(count, np.inf)
        self._leaf, self.usable = np.zeros(count, np.int64), np.ones(count, bool)
        self._types, self._features = ("",) * count, (frozenset[str](),) * count

    @property
    def free(self) -> int:
        return int(self._free.sum())

    def take(self, job: int, start: Start) -> bool:
        """False: these GPUs are not free yet."""
        seat = tuple((self._row[name], gpus) for name, gpus in start.nodes)
        if any(self._free[node] < gpus for node, gpus in seat):
            return False
        self._seats[job] = seat
        self._move(job, -1)
        return True

    def leave(self, job: int) -> None:
        self._move(job, +1)
        del self._seats[job]

    def jobs_on(self, node: int) -> list[int]:
        return [job for job, seat in self._seats.items() if any(node == each for each, _ in seat)]

    def _move(self, job: int, sign: int) -> None:
        for node, gpus in self._seats[job]:
            self._free[node] += sign * gpus
            if not 0 <= self._free[node] <= self._gpus[node]:
                raise AssertionError(f"{self._names[node]} has {self._free[node]} of {self._gpus[node]} GPUs free")

    def nodes(self) -> Nodes:
        return Nodes(
            self._names, self._gpus, self._free.copy(), self._plenty, self._plenty,
            self.usable.copy(), self._leaf, self._types, self._features,
        )  # fmt: skip

    def allocations(self, place_of: dict[int, int]) -> Allocations:
        """`place_of`: the row in the snapshot of each row of the trace that is shown in it."""
        seats = [(place_of[job], node, gpus) for job, seat in self._seats.items() for node, gpus in seat]
        job, node, gpus = np.array(seats, np.int64).reshape(-1, 3).T
        nothing = np.zeros(len(seats))
        return Allocations(job, node, gpus, nothing, nothing)
