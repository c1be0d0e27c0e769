"""Slurm's topology as `scontrol show topology` prints it: topology/tree has switches, topology/block blocks. Light imports only."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiresias.scheduler.host_lists import hosts

Level = Mapping[str, str]  # node -> its group
_NAMES = ("SwitchName", "BlockName", "AggregatedBlock")
_FIELD = re.compile(r"(\w+)=(\S+)")


def from_slurm(text: str) -> tuple[Level, ...]:
    """Return the levels in the output of `scontrol show topology`, the nearest one first: switches by level, blocks by size."""
    levels: dict[int, dict[str, str]] = {}
    for fields in (dict(_FIELD.findall(line)) for line in text.splitlines()):
        name = next((fields[key] for key in _NAMES if fields.get(key)), "")
        height = fields.get("Level") or fields.get("BlockSize") or ""
        if name and height.isdecimal():
            level = levels.setdefault(int(height), {})
            level.update(dict.fromkeys(hosts(fields.get("Nodes", "")), name))
    return tuple(levels[height] for height in sorted(levels))
