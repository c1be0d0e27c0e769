"""The GPUs of a simulated cluster and the jobs that hold them."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Allocations, Nodes, Start
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import Topology
from tiresias.simulator.cluster_size import ClusterSize


class Occupancy:
    """Tracks the GPUs that each job holds on each node, and in which cells of its tenant. Jobs are rows of the trace."""

    def __init__(self, cluster: ClusterSize, has_tenants: bool = False) -> None:
        count = cluster.nodes
        self._names = tuple(f"node{index:05}" for index in range(count))
        self._row = {name: row for row, name in enumerate(self._names)}
        self._gpus = np.full(count, cluster.gpus_per_node, np.int64)
        self._free = self._gpus.copy()
        self._held: dict[int, tuple[tuple[int, int], ...]] = {}
        self._cells: dict[int, tuple[str, ...]] | None = {} if has_tenants else None
        self._unlimited = np.full(count, np.inf)
        self._topology, self.usable = _topology(cluster), np.ones(count, bool)
        self._types, self._features = ("",) * count, (frozenset[str](),) * count

    @property
    def free(self) -> int:
        """Number of free GPUs of all nodes."""
        return int(self._free.sum())

    def take(self, job: int, start: Start) -> bool:
        """Allocate the GPUs of a start. Returns False, and nothing has changed, if some of them are not free."""
        place = tuple((self._row[name], gpus) for name, gpus in start.nodes)
        if any(self._free[node] < gpus for node, gpus in place):
            return False
        self._held[job] = place
        self.rebind(job, start.owned_cells)
        self._change_free(job, -1)
        return True

    def release(self, job: int) -> None:
        """Free the GPUs of a job."""
        self._change_free(job, +1)
        del self._held[job]
        if self._cells is not None:
            del self._cells[job]

    def rebind(self, job: int, owned_cells: tuple[str, ...]) -> None:
        """Set the types of the cells in which a job holds its GPUs, node by node; (): in no cell of its tenant."""
        if self._cells is not None:
            self._cells[job] = owned_cells or ("",) * len(self._held[job])

    def jobs_on(self, node: int) -> list[int]:
        """Return the jobs that hold GPUs of a node."""
        return [job for job, place in self._held.items() if any(node == each for each, _ in place)]

    def _change_free(self, job: int, sign: int) -> None:
        for node, gpus in self._held[job]:
            self._free[node] += sign * gpus
            if not 0 <= self._free[node] <= self._gpus[node]:
                raise AssertionError(f"{self._names[node]} has {self._free[node]} of {self._gpus[node]} GPUs free")

    def nodes(self) -> Nodes:
        """Return the nodes as a snapshot shows them."""
        return Nodes(
            self._names,
            self._gpus,
            Resources.of(self._free, self._unlimited, self._unlimited),
            self.usable.copy(),
            self._topology,
            self._types,
            self._features,
        )

    def allocations(self, place_of: dict[int, int]) -> Allocations:
        """Return the allocations as a snapshot shows them. `place_of`: row of the trace -> row of the snapshot."""
        rows = [(place_of[job], node, gpus) for job, place in self._held.items() for node, gpus in place]
        job, node, gpus = np.array(rows, np.int64).reshape(-1, 3).T
        nothing = np.zeros(len(rows))
        cells = None if self._cells is None else tuple(cell for each in self._held for cell in self._cells[each])
        return Allocations(job, node, Resources.of(gpus, nothing, nothing), cells)


def _topology(cluster: ClusterSize) -> Topology:
    gpus, size = np.full(cluster.nodes, cluster.gpus_per_node, np.int64), cluster.nodes_per_leaf
    return Topology.of_groups(gpus, [np.arange(cluster.nodes) // size] if size else ())
