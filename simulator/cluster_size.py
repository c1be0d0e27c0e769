"""The size of a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """A cluster of equal nodes.

    Attributes:
        nodes: Number of nodes.
        gpus_per_node: Number of GPUs on each node.
        nodes_per_leaf: Number of nodes under each leaf switch, the last one possibly fewer; 0: all nodes under one switch.
    """

    nodes: int
    gpus_per_node: int
    nodes_per_leaf: int = 0

    @property
    def gpus(self) -> int:
        """The number of GPUs of the whole cluster."""
        return self.nodes * self.gpus_per_node
