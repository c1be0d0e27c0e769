"""The GPUs of a simulated cluster and the jobs that hold them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Allocations, Ints, Nodes, Start
from tiresias.scheduler.place.gpu_islands import choose
from tiresias.scheduler.resources import Resources
from tiresias.simulator.cluster_size import ClusterSize


class HeldGpus(NamedTuple):
    """What a job holds on one node.

    Attributes:
        node: Row of the node.
        gpus: Number of GPUs.
        parts: GPUs on each socket.
    """

    node: int
    gpus: int
    parts: tuple[int, ...]


class Occupancy:
    """Tracks the GPUs that each job holds on each node and socket, and in which cells of its tenant. Jobs are rows of the trace."""

    def __init__(self, cluster: ClusterSize, has_tenants: bool = False) -> None:
        count = cluster.nodes
        self._names = cluster.names
        self._row = {name: row for row, name in enumerate(self._names)}
        self._gpus = cluster.node_gpus
        self._sockets = cluster.sockets_per_node
        self._free = np.repeat(self._gpus[:, None] // self._sockets, self._sockets, axis=1)
        self._held: dict[int, tuple[HeldGpus, ...]] = {}
        self._cells: dict[int, tuple[str, ...]] | None = {} if has_tenants else None
        self._unlimited = np.full(count, np.inf)
        self._topology, self.usable = cluster.topology(), np.ones(count, bool)
        self._types, self._features = ("",) * count, (frozenset[str](),) * count

    def free_by_socket(self) -> Ints:
        """Return the free GPUs of each socket, shape (nodes, sockets)."""
        found: Ints = self._free.copy()
        return found

    @property
    def free(self) -> int:
        """Number of free GPUs of all nodes."""
        return int(self._free.sum())

    def take(self, job: int, start: Start) -> bool:
        """Allocate the GPUs of a start. Returns False, and nothing has changed, if some of them are not free."""
        parts = start.parts or ((),) * len(start.nodes)
        place = [self._fit(self._row[name], gpus, of) for (name, gpus), of in zip(start.nodes, parts, strict=True)]
        if any((self._free[node] < of).any() for node, _, of in place):
            return False
        self._held[job] = tuple(place)
        self.rebind(job, start.owned_cells)
        self._change_free(job, -1)
        return True

    def _fit(self, node: int, gpus: int, parts: tuple[int, ...]) -> HeldGpus:
        """Return what a start takes of a node. Without parts it takes the fewest sockets, and what is not free of the first one."""
        if not parts:
            free = tuple(self._free[node].tolist())
            taken = choose(free, (self._sockets,), gpus).taken
            parts = (taken[0] + gpus - sum(taken), *taken[1:])
        return HeldGpus(node, gpus, parts)

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

    def held(self, job: int) -> tuple[HeldGpus, ...]:
        """Return what a job holds, node by node."""
        return self._held[job]

    def jobs_on(self, node: int) -> list[int]:
        """Return the jobs that hold GPUs of a node."""
        return [job for job, place in self._held.items() if any(node == held.node for held in place)]

    def _change_free(self, job: int, sign: int) -> None:
        for node, _, parts in self._held[job]:
            self._free[node] += np.multiply(sign, parts)
            if not 0 <= self._free[node].min() <= self._free[node].max() <= self._gpus[node] // self._sockets:
                raise AssertionError(f"{self._names[node]} has {self._free[node].tolist()} GPUs free on its sockets")

    def nodes(self) -> Nodes:
        """Return the nodes as a snapshot shows them."""
        free = Resources.of(self._free.sum(axis=1), self._unlimited, self._unlimited)
        return Nodes(
            self._names,
            self._gpus,
            free.with_islands(self._free) if self._sockets > 1 else free,
            self.usable.copy(),
            self._topology,
            self._types,
            self._features,
        )

    def allocations(self, place_of: dict[int, int]) -> Allocations:
        """Return the allocations as a snapshot shows them. `place_of`: row of the trace -> row of the snapshot."""
        rows = [(place_of[job], node, gpus, *parts) for job, place in self._held.items() for node, gpus, parts in place]
        job, node, gpus, *parts = np.array(rows, np.int64).reshape(-1, 3 + self._sockets).T
        nothing = np.zeros(len(rows))
        held = Resources.of(gpus, nothing, nothing, np.transpose(parts) if self._sockets > 1 else None)
        cells = None if self._cells is None else tuple(cell for each in self._held for cell in self._cells[each])
        return Allocations(job, node, held, cells)
