"""Which nodes are near each other: groups of nodes on levels, the nearest level first.

From Slurm's topology (topology/tree: switches, topology/block: blocks) where it is configured, else from the nodes' features
(`placement.levels` of the configuration). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiresias.scheduler.model import Ints
from tiresias.scheduler.slurm_topology import Level, from_slurm
from tiresias.slurm_plugin.backends.interface import SlurmNode

__all__ = ("Level", "from_features", "from_slurm", "groups")


def from_features(nodes: Sequence[SlurmNode], prefixes: Sequence[str]) -> tuple[Level, ...]:
    """Return the levels of the nodes' features.

    prefixes: a level each, such as "rack|leaf": the first feature of a node that starts with one of them is its group.
    """
    return tuple(
        {node.name: group for node in nodes if (group := _named(node, tuple(level.split("|"))))} for level in prefixes
    )


def _named(node: SlurmNode, prefixes: tuple[str, ...]) -> str:
    return next((one for one in node.features if one.startswith(prefixes)), "")


def groups(nodes: Sequence[SlurmNode], levels: Sequence[Level]) -> tuple[Ints, ...]:
    """Return the index of each node's group on each level, shape (nodes,); at least one level.

    The nodes that a level does not name are one group. A level of one group is left out.
    """
    found = [np.unique([level.get(node.name, "") for node in nodes], return_inverse=True)[1] for level in levels]
    several = tuple(index.astype(np.int64) for index in found if len(index) and index.max() > 0)
    return several or (np.zeros(len(nodes), np.int64),)
