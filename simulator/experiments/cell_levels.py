"""The levels of cells of a simulated cluster, as `[[virtual_cluster]]` tables name them."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.scheduler.tenants.declarations import DeclaredCells
from tiresias.scheduler.topology_tree import LEAF, NODE
from tiresias.simulator.cluster_size import ClusterSize


@dataclass(frozen=True, slots=True)
class CellLevels:
    """Leaf switches and nodes that virtual clusters can own.

    Attributes:
        leaf: Name of the level of the leaf switches.
        node: Name of the level of the nodes.
        nodes_per_leaf: Nodes under each leaf switch; 0: no leaf switches are known.
        nodes: Nodes that virtual clusters can own. Those under a last leaf switch with fewer nodes are left to other jobs.
    """

    leaf: str
    node: str
    nodes_per_leaf: int
    nodes: int

    @classmethod
    def of(cls, cluster: ClusterSize) -> CellLevels:
        """Return the levels of a cluster."""
        size = cluster.nodes_per_leaf if cluster.nodes_per_leaf <= cluster.nodes else 0
        if not size or cluster.nodes % size == 0:
            return cls(LEAF, NODE, size, cluster.nodes)
        whole = f"{LEAF}#1"  # the leaves differ: the first type is that of the first leaf
        return cls(whole, f"{whole}.{NODE}", size, cluster.nodes // size * size)

    def cells(self, nodes: int, leaves: int) -> tuple[DeclaredCells, ...]:
        """Return the cells of so many nodes, of which some are merged to leaves."""
        counts = ((self.leaf, leaves), (self.node, nodes - leaves * self.nodes_per_leaf))
        return tuple(DeclaredCells(level, count) for level, count in counts if count)
