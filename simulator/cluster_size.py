"""The size of a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Ints
from tiresias.scheduler.topology_tree import MAX_ISLANDS, Topology
from tiresias.simulator.topologies.network import SOCKET, Network
from tiresias.simulator.topologies.server_kinds import ServerKind


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """A cluster: equal nodes, or those of a network.

    Attributes:
        nodes: Number of nodes.
        gpus_per_node: Number of GPUs on each node; of a network, those of its largest one.
        nodes_per_leaf: Number of nodes under each leaf switch, the last one possibly fewer; 0: all nodes under one switch.
        sockets_per_node: Number of sockets of each node, with equal numbers of GPUs.
        network: The servers and how they are connected; None: nodes are equal, and no more of them is known.
    """

    nodes: int
    gpus_per_node: int
    nodes_per_leaf: int = 0
    sockets_per_node: int = 1
    network: Network | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for sockets that cannot share the GPUs."""
        sockets = self.sockets_per_node
        if self.gpus_per_node % sockets or sockets > MAX_ISLANDS:
            allowed = f"give a divisor of them, {MAX_ISLANDS} at most"
            raise UsageError(f"{sockets} sockets cannot share the {self.gpus_per_node} GPUs of a node: {allowed}")

    @classmethod
    def of_network(cls, network: Network) -> ClusterSize:
        """Return the cluster of a network."""
        return cls(len(network.servers), int(network.gpus.max()), 0, network.sockets, network)

    @property
    def gpus(self) -> int:
        """The number of GPUs of the whole cluster."""
        return int(self.network.gpus.sum()) if self.network else self.nodes * self.gpus_per_node

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each node."""
        return self.network.servers if self.network else tuple(f"node{index:05}" for index in range(self.nodes))

    @property
    def kinds(self) -> tuple[ServerKind, ...]:
        """The kind of each node."""
        alike = ServerKind("node", self.gpus_per_node, self.sockets_per_node)
        return self.network.kinds if self.network else (alike,) * self.nodes

    @property
    def node_gpus(self) -> Ints:
        """The GPUs of each node, shape (nodes,)."""
        return self.network.gpus if self.network else np.full(self.nodes, self.gpus_per_node, np.int64)

    def topology(self) -> Topology:
        """Return the tree of the nodes."""
        if self.network:
            return self.network.tree
        size, sockets = self.nodes_per_leaf, self.sockets_per_node
        found = Topology.of_groups(self.node_gpus, [np.arange(self.nodes) // size] if size else ())
        return found.with_parts((SOCKET,), [(sockets,)] * self.nodes, [True] * self.nodes) if sockets > 1 else found
