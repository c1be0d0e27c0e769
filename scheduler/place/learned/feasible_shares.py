"""The GPUs that each node may get next, so that the job can still be placed in its request: -N, gpus_per_node and what is free.

Pure. Where `possible_at_all` holds, some node may get a GPU until all are placed.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Ints, Request


class FeasibleShares:
    """A placement that is made step by step.

    Attributes:
        shares: GPUs that each node has got, shape (nodes,).
        left: GPUs that are not placed yet.
        used: Nodes that have got a GPU.
    """

    def __init__(self, request: Request, gpus: int, fit: Ints) -> None:
        """fit: GPUs that each node has free for the job, shape (nodes,)."""
        self._request, self._fit, self.left = request, fit, gpus
        self.shares: Ints = np.zeros(len(fit), np.int64)
        self.used, self._most = 0, request.max_nodes or len(fit)

    def possible_at_all(self) -> bool:
        """Return whether the job fits."""
        request, fit, each = self._request, self._fit, self._request.gpus_per_node
        if each:
            count, rest = divmod(self.left, each)
            return not rest and request.min_nodes <= count <= self._most and int(np.count_nonzero(fit >= each)) >= count
        enough = int(np.count_nonzero(fit)) >= request.min_nodes <= self.left
        return enough and _sum_of_largest(fit, self._most) >= self.left

    def possible(self, task: int) -> Ints:
        """Return how many GPUs each node may get of a task; 0: none. Shape (nodes,).

        Args:
            task: GPUs of the task; with gpus_per_node, so many in place of it.
        """
        each, fresh = self._request.gpus_per_node, self.shares == 0
        if each:
            return np.where(fresh & (self._fit >= each), each, 0)
        lacking = self._request.min_nodes - self.used  # nodes that have to get a GPU yet
        on_new, on_used = self.left - max(lacking - 1, 0), self.left - max(lacking, 0)
        most = np.where(fresh, on_new if self.used < self._most else 0, on_used)
        found: Ints = np.minimum(self._fit - self.shares, np.minimum(most, task))
        if self._most < len(self._fit):
            found[fresh & (self._fit < self._fewest_on_new(fresh))] = 0
        return found

    def give(self, node: int, gpus: int) -> None:
        """Place GPUs, no more than `possible` returned for the node."""
        self.used += int(self.shares[node] == 0)
        self.shares[node] += gpus
        self.left -= gpus

    def placement(self) -> tuple[tuple[int, int], ...]:
        """Return the nodes and their GPUs."""
        nodes = np.flatnonzero(self.shares)
        return tuple(zip(nodes.tolist(), self.shares[nodes].tolist(), strict=True))

    def _fewest_on_new(self, fresh: np.ndarray) -> int:
        """Return the free GPUs that the next new node needs, so that as many others as are allowed can hold the rest."""
        others = _sum_of_largest(self._fit[fresh], self._most - self.used - 1)
        return self.left - int((self._fit - self.shares)[~fresh].sum()) - others


def _sum_of_largest(fit: Ints, count: int) -> int:
    if count >= len(fit):
        return int(fit.sum())
    return int(np.partition(fit, len(fit) - count)[len(fit) - count :].sum()) if count > 0 else 0
