"""The size of a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """A cluster of equal nodes.

    Attributes:
        nodes: Number of nodes.
        gpus_per_node: Number of GPUs on each node.
    """

    nodes: int
    gpus_per_node: int

    @property
    def gpus(self) -> int:
        """The number of GPUs of the whole cluster."""
        return self.nodes * self.gpus_per_node
