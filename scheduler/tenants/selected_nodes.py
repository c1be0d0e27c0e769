"""The virtual nodes that the policies of virtual clusters (VCs) have selected for jobs, while hardware is bad.

A job that takes the last healthy hardware, or is given cells on the bad node where it runs, may leave bad nodes to a job of its VC
that ranks before it. That job would take its cells in the next decision, and so on without end.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.scheduler.tenants.cell_changes import ChosenNodes
from tiresias.scheduler.virtual_clusters.cell import VirtualCell


class SelectedNodes:
    """The virtual nodes of jobs that do not hold them: these are bound later in the decision, or kept free for a job."""

    def __init__(self, selected: Sequence[ChosenNodes]) -> None:
        """`selected`: the virtual nodes of each selected job; those of one VC in the order of its policy."""
        self._own = list(selected)
        self._of: dict[str, dict[int, list[VirtualCell]]] = {}
        for at, chosen in enumerate(selected):
            self._of.setdefault(chosen[0][0].cluster, {})[at] = [node for node, _ in chosen]

    def are_healthy_before(self, at: int) -> bool:
        """Return whether no virtual node of a job before this one, of the same VC, is bound to bad hardware. O(jobs of the VC)."""
        nodes = (node for place, nodes in self._of_cluster(at).items() if place < at for node in nodes)
        return all(node.physical is None or node.physical.healthy for node in nodes)

    def settle(self, at: int) -> None:
        """Leave a job out from now on: it holds its virtual nodes, or nothing is kept free for it."""
        del self._of_cluster(at)[at]

    def _of_cluster(self, at: int) -> dict[int, list[VirtualCell]]:
        return self._of[self._own[at][0][0].cluster]
