"""Restarts on the nodes of the last run: their page caches and local disks may still have the job's data.

What starts on two alike nodes is exchanged between them where more jobs then start on nodes of their last runs. This happens when
all nodes are assigned, so that it changes no other part of a decision: which jobs start, the number of GPUs, nodes and leaf
switches of each, which jobs are preempted, and what is reserved. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

import numpy as np

from tiresias.scheduler.model import Bools, Nodes
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.free_capacity import COUNTED, ClusterCapacity, PlacementRequest, free

Starts = Mapping[int, Placement]
_ROUNDING = 1e-3  # of sums of CPUs and MiB


def rows_of_last_nodes(
    names: Sequence[frozenset[str]] | None, nodes: Nodes, starting: Iterable[int]
) -> dict[int, frozenset[int]]:
    """Return the rows of the nodes of the last run of each starting job that has such nodes.

    Args:
        names: Names of these nodes of each job; None: not known of any job.
        nodes: The nodes of the snapshot.
        starting: Rows of the starting jobs.
    """
    restarts = [row for row in starting if names[row]] if names else []
    if not names or not restarts:
        return {}
    row_of = {name: at for at, name in enumerate(nodes.name)}
    found = {row: frozenset(row_of[name] for name in names[row] if name in row_of) for row in restarts}
    return {row: last for row, last in found.items() if last}


class AlikeNodes:
    """Which nodes can be exchanged in a finished assignment.

    Args:
        nodes: The nodes of the snapshot.
        capacity: What the assignment has left.
        starts: The placement of each starting job, by row.
        reserved: The rows of nodes on which something is reserved.
        requests: Returns the placement request of a starting job.
        neighbours: Returns what has to be equal of the jobs that hold GPUs of a node.
    """

    def __init__(
        self,
        nodes: Nodes,
        capacity: ClusterCapacity,
        starts: Starts,
        reserved: Collection[int],
        requests: Callable[[int], PlacementRequest],
        neighbours: Callable[[int], Hashable],
    ) -> None:
        self._nodes, self._requests, self._free, self._neighbours = nodes, requests, free(nodes), neighbours
        self._is_plain = self._only_starts(capacity, starts) & nodes.usable
        self._is_plain[list(reserved)] = False

    def _only_starts(self, capacity: ClusterCapacity, starts: Starts) -> Bools:
        """Return the nodes of which only the starts took something, and that have nothing more free later; shape (nodes,)."""
        now, later, used = capacity.now.amount, capacity.later.amount, np.zeros((len(self._nodes), COUNTED))
        for row, placement in starts.items():
            for node, gpus in placement:
                used[node] += self._requests(row).amounts(gpus)
        same: Bools = np.isclose(now[:, :COUNTED] + used, self._free[:, :COUNTED], 0.0, _ROUNDING)
        same &= np.isclose(now[:, :COUNTED], later[:, :COUNTED], 0.0, _ROUNDING)
        return np.asarray(same.all(axis=1), np.bool_)

    def key(self, node: int) -> Hashable | None:
        """Return what is equal for alike nodes: the place in the topology, the hardware, its speed, and what was free before the
        starts; None for a node that is not exchanged."""
        nodes = self._nodes
        if not self._is_plain[node]:
            return None
        tree, last_resort = nodes.topology, nodes.last_resort is not None and bool(nodes.last_resort[node])
        return (
            self._free[node].tobytes(), *(int(level[node]) for level in (*tree.groups, *tree.parts)), last_resort,
            tree.uneven.get(node), tree.selectable is not None and bool(tree.selectable[node]),
            int(nodes.gpus[node]), nodes.gpu_type[node], nodes.features[node],
            self._neighbours(node), nodes.slowness is not None and float(nodes.slowness[node]),
        )  # fmt: skip

    def may_use(self, row: int, node: int, in_place_of: int) -> bool:
        """Return whether a job that starts on one node may start on the other in place of it."""
        demand = self._requests(row).demand
        return bool(demand.allowed[node]) and demand.islands.get(node) == demand.islands.get(in_place_of)


def on_last_nodes(starts: Starts, last: Mapping[int, frozenset[int]], alike: AlikeNodes) -> dict[int, Placement]:
    """Return the placements of starts, in the same order, with nodes exchanged.

    O(nodes of the jobs in `last`, and of the starts); jobs that are earlier in the order are served first.

    Args:
        starts: The placement of each starting job, by row.
        last: The rows of the nodes of its last run, for the jobs that have such nodes.
        alike: Which nodes can be exchanged.
    """
    exchange = _Exchange(starts, last, alike)
    for row in starts:
        if row in last:
            exchange.serve(row)
    return exchange.placements()


class _Exchange:
    """An exchange of nodes. A slot is what starts on one node: it has the row of the node until it is exchanged."""

    def __init__(self, starts: Starts, last: Mapping[int, frozenset[int]], alike: AlikeNodes) -> None:
        self._starts, self._last, self._alike = starts, last, alike
        self._in_slot: dict[int, dict[int, int]] = {}  # GPUs of each starting job
        for row, placement in starts.items():
            for node, gpus in placement:
                self._in_slot.setdefault(node, {})[row] = gpus
        self._node_of: dict[int, int] = {}  # of the slots that were exchanged
        self._slot_of: dict[int, int] = {}  # the inverse
        self._keys: dict[int, Hashable | None] = {}

    def serve(self, row: int) -> None:
        """Exchange nodes of a job for nodes of its last run."""
        slots = {self._node_of.get(slot, slot): slot for slot, _ in self._starts[row]}
        others: dict[Hashable | None, list[int]] = {}
        for node in sorted(slots.keys() - self._last[row], reverse=True):
            others.setdefault(self._key(node), []).append(slots[node])
        others.pop(None, None)
        for node in sorted(self._last[row] - slots.keys()):
            slot, same = self._slot_of.get(node, node), others.get(self._key(node))
            if same and self._gain(same[-1], slot) > 0 and self._is_possible(same[-1], slot):
                self._swap(same.pop(), slot)

    def _key(self, node: int) -> Hashable | None:
        if node not in self._keys:
            self._keys[node] = self._alike.key(node)
        return self._keys[node]

    def _gain(self, one: int, other: int) -> int:
        """Return on how many more nodes of last runs jobs start after the exchange of two slots."""
        return self._moved(one, other) + self._moved(other, one)

    def _moved(self, slot: int, to: int) -> int:
        before, after = self._node_of.get(slot, slot), self._node_of.get(to, to)
        last = [self._last[row] for row in self._in_slot.get(slot, ()) if row in self._last]
        return sum((after in nodes) - (before in nodes) for nodes in last)

    def _is_possible(self, one: int, other: int) -> bool:
        return self._may_move(one, other) and self._may_move(other, one)

    def _may_move(self, slot: int, to: int) -> bool:
        before, after = self._node_of.get(slot, slot), self._node_of.get(to, to)
        return all(self._alike.may_use(row, after, before) for row in self._in_slot.get(slot, ()))

    def _swap(self, one: int, other: int) -> None:
        before, after = self._node_of.get(one, one), self._node_of.get(other, other)
        self._node_of[one], self._node_of[other] = after, before
        self._slot_of[after], self._slot_of[before] = one, other

    def placements(self) -> dict[int, Placement]:
        """Return the placements as they are now."""
        if not self._node_of:
            return dict(self._starts)
        return {row: self._placement(found) for row, found in self._starts.items()}

    def _placement(self, found: Placement) -> Placement:
        if not any(slot in self._node_of for slot, _ in found):
            return found
        return tuple(sorted((self._node_of.get(slot, slot), gpus) for slot, gpus in found))
