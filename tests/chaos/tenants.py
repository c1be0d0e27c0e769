"""The virtual clusters (VCs) of a campaign: 12 nodes of 8 GPUs in four racks, 11 of them owned; each VC is an account of Slurm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

NODES, GPUS_PER_NODE, NODES_PER_RACK = 12, 8, 3
OUTSIDE = "science"  # an account that belongs to no virtual cluster


@dataclass(frozen=True, slots=True)
class Tenant:
    """A virtual cluster. nodes: how many it owns. in_one_rack: they are a rack."""

    name: str
    nodes: int
    in_one_rack: bool = False

    @property
    def table(self) -> dict[str, Any]:
        """Its table in the configuration of the controller."""
        cells = {"level": "leaf", "count": 1} if self.in_one_rack else {"level": "node", "count": self.nodes}
        return {"name": self.name, "cells": [cells], "accounts": [self.name]}


TENANTS = (
    Tenant("vision", NODES_PER_RACK, in_one_rack=True),
    Tenant("speech", 4),
    Tenant("robots", 4),
)
OWNED = {tenant.name: tenant for tenant in TENANTS}


def whole_nodes(gpus: int) -> int:
    """The nodes that a job of so many GPUs takes at most, where each of its nodes is its own."""
    return math.ceil(gpus / GPUS_PER_NODE)
