"""Who holds what on which node, and what is free there now and later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Floats, Ints, Nodes, Snapshot
from tiresias.scheduler.offer import Placement
from tiresias.scheduler.space import GPUS, Kind, Space


def free(nodes: Nodes) -> Floats:
    """What is free on each node where jobs may start; shape (nodes, columns)."""
    amount = _columns(nodes.free, nodes.free_cpus, nodes.free_memory, nodes.islands)
    return np.where(nodes.usable[:, None], amount, 0.0)


def _columns(gpus: Ints, cpus: Floats, memory: Floats, islands: Ints | None) -> Floats:
    """The columns of a `Space`."""
    columns = np.stack((gpus, cpus, memory), axis=1).astype(np.float64)
    return columns if islands is None else np.concatenate((columns, islands), axis=1)


class Holdings:
    """The allocations of managed jobs, on nodes that may be used again: what sits on a drained node frees nothing."""

    def __init__(self, snapshot: Snapshot) -> None:
        held = snapshot.allocations
        order = np.argsort(held.job, kind="stable")
        order = order[snapshot.nodes.usable[held.node[order]]]
        self._job = held.job[order]
        self.node: Ints = held.node[order]
        self.amount = _columns(held.gpus, held.cpus, held.memory, held.islands)[order]
        self._first = np.searchsorted(self._job, np.arange(len(snapshot.jobs) + 1))
        self._nodes = len(snapshot.nodes)

    def of(self, row: int) -> slice:
        """The entries of one job in `node` and `amount`."""
        return slice(int(self._first[row]), int(self._first[row + 1]))

    def gpus(self) -> Ints:
        """What each job would free; shape (jobs,)."""
        return np.bincount(self._job, self.amount[:, GPUS], len(self._first) - 1).astype(np.int64)

    def on_nodes(self, rows: Ints) -> Floats:
        """What those jobs hold together; shape (nodes, columns)."""
        chosen = np.zeros(len(self._first) - 1, bool)
        chosen[rows] = True
        mine = chosen[self._job]
        node, amount = self.node[mine], self.amount[mine]
        return np.stack([np.bincount(node, column, self._nodes) for column in amount.T], axis=1)

    def sitting_on(self, nodes: Sequence[int]) -> Ints:
        """Rows of the jobs that hold something there."""
        return np.unique(self._job[np.isin(self.node, nodes)])


@dataclass(slots=True, eq=False)
class Room:
    """now: held by nobody. later: also what leaving jobs and those that are to be preempted will free. What is promised to
    somebody is taken from both, so `now` never exceeds `later`."""

    now: Space
    later: Space

    def start(self, kind: Kind, placement: Placement) -> None:
        self.now.take(kind, placement)
        self.later.take(kind, placement)

    def reserve(self, kind: Kind, placement: Placement) -> None:
        self.later.take(kind, placement)
        self.now.limit(self.later, [node for node, _ in placement])
