"""The virtual clusters (VCs) of a campaign: 12 nodes of 8 GPUs in four racks, 11 of them owned; each VC is an account of Slurm."""

from __future__ import annotations

import math
from dataclasses import dataclass

NODES, GPUS_PER_NODE, NODES_PER_RACK = 12, 8, 3
OUTSIDE = "science"  # an account that belongs to no virtual cluster


@dataclass(frozen=True, slots=True)
class Tenant:
    """A virtual cluster. nodes: how many it owns. in_one_rack: they are a rack."""

    name: str
    cells: str
    nodes: int
    in_one_rack: bool = False

    @property
    def table(self) -> str:
        return f'\n[[virtual_cluster]]\nname = "{self.name}"\ncells = [{self.cells}]\naccounts = ["{self.name}"]\n'


TENANTS = (
    Tenant("vision", '{ level = "leaf", count = 1 }', NODES_PER_RACK, in_one_rack=True),
    Tenant("speech", '{ level = "node", count = 4 }', 4),
    Tenant("robots", '{ level = "node", count = 4 }', 4),
)
TABLES = "".join(tenant.table for tenant in TENANTS)
OWNED = {tenant.name: tenant for tenant in TENANTS}


def whole_nodes(gpus: int) -> int:
    """The nodes that a job of so many GPUs takes at most, where each of its nodes is its own."""
    return math.ceil(gpus / GPUS_PER_NODE)
