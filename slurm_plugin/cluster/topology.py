"""Which nodes are near each other: groups of nodes on levels, the nearest level first.

From Slurm's topology (topology/tree: switches, topology/block: blocks) where it is configured, else from the nodes' features
(`placement.levels` of the configuration). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from tiresias.scheduler.host_lists import hosts
from tiresias.scheduler.model import Ints
from tiresias.slurm_plugin.backends.interface import SlurmNode

Level = Mapping[str, str]  # node -> its group
_NAMES = ("SwitchName", "BlockName", "AggregatedBlock")
_FIELD = re.compile(r"(\w+)=(\S+)")


def from_slurm(text: str) -> tuple[Level, ...]:
    """Return the levels in the output of `scontrol show topology`: switches by their level, blocks by their size."""
    levels: dict[int, dict[str, str]] = {}
    for fields in (dict(_FIELD.findall(line)) for line in text.splitlines()):
        name = next((fields[key] for key in _NAMES if fields.get(key)), "")
        height = fields.get("Level") or fields.get("BlockSize") or ""
        if name and height.isdecimal():
            level = levels.setdefault(int(height), {})
            level.update(dict.fromkeys(hosts(fields.get("Nodes", "")), name))
    return tuple(levels[height] for height in sorted(levels))


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
