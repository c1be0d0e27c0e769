"""The size of a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.errors import UsageError
from tiresias.scheduler.topology_tree import MAX_ISLANDS


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """A cluster of equal nodes.

    Attributes:
        nodes: Number of nodes.
        gpus_per_node: Number of GPUs on each node.
        nodes_per_leaf: Number of nodes under each leaf switch, the last one possibly fewer; 0: all nodes under one switch.
        sockets_per_node: Number of sockets of each node, with equal numbers of GPUs.
    """

    nodes: int
    gpus_per_node: int
    nodes_per_leaf: int = 0
    sockets_per_node: int = 1

    def __post_init__(self) -> None:
        """Raises UsageError for sockets that cannot share the GPUs."""
        sockets = self.sockets_per_node
        if self.gpus_per_node % sockets or sockets > MAX_ISLANDS:
            allowed = f"give a divisor of them, {MAX_ISLANDS} at most"
            raise UsageError(f"{sockets} sockets cannot share the {self.gpus_per_node} GPUs of a node: {allowed}")

    @property
    def gpus(self) -> int:
        """The number of GPUs of the whole cluster."""
        return self.nodes * self.gpus_per_node
