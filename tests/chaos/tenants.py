"""The virtual clusters (VCs) of a campaign: 12 nodes of 8 GPUs in four racks, 11 of them owned; each VC is an account of Slurm.

With parts (`PARTED`) each node has two sockets with a GPU type of their own each, and one VC owns sockets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

NODES, GPUS_PER_NODE, NODES_PER_RACK = 12, 8, 3
PART_TYPES = ("s0", "s1")  # of the sockets of a node, in the order of the GPUs
GPUS_PER_PART = GPUS_PER_NODE // len(PART_TYPES)
OUTSIDE = "science"  # an account that belongs to no virtual cluster


@dataclass(frozen=True, slots=True)
class Tenant:
    """A virtual cluster. nodes: how many it owns. in_one_rack: they are a rack. in_parts: it owns their sockets, not the nodes.
    policy: the order of its jobs; "": that of all."""

    name: str
    nodes: int
    in_one_rack: bool = False
    in_parts: bool = False
    policy: str = ""

    @property
    def parts(self) -> int:
        """The sockets that it owns."""
        return self.nodes * len(PART_TYPES) * self.in_parts

    @property
    def most_nodes(self) -> int:
        """The nodes on which its cells are at most."""
        return self.parts or self.nodes

    def holds(self, sizes: Iterable[int]) -> bool:
        """Return whether it owns whole cells for jobs of so many GPUs each, wherever these cells are bound."""
        if self.in_parts:
            cells = [gpus <= GPUS_PER_PART for gpus in sizes]
            return all(cells) and len(cells) <= self.parts
        return sum(map(whole_nodes, sizes)) <= self.nodes

    @property
    def table(self) -> dict[str, Any]:
        """Its table in the configuration of the controller."""
        level, count = ("socket", self.parts) if self.in_parts else ("node", self.nodes)
        level, count = ("leaf", 1) if self.in_one_rack else (level, count)
        own = {"policy": self.policy} if self.policy else {}
        return {"name": self.name, "cells": [{"level": level, "count": count}], "accounts": [self.name], **own}


TENANTS = (
    Tenant("vision", NODES_PER_RACK, in_one_rack=True),
    Tenant("speech", 4),
    Tenant("robots", 4),
)
OWNED = {tenant.name: tenant for tenant in TENANTS}
PARTED = OWNED | {"robots": replace(OWNED["robots"], in_parts=True)}


def whole_nodes(gpus: int) -> int:
    """The nodes that a job of so many GPUs takes at most, where each of its nodes is its own."""
    return math.ceil(gpus / GPUS_PER_NODE)
