"""The memory of a node, or of a cgroup: how much there is, and how much can be used without swapping."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import UsageError

MEMINFO = Path("/proc/meminfo")
_FIELD = re.compile(rb"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)


class NodeMemory(NamedTuple):
    """A measurement.

    Attributes:
        total_bytes: Memory of the node or the limit of the cgroup.
        available_bytes: What new processes can use.
    """

    total_bytes: int
    available_bytes: int


def memory_reader(path: Path) -> Callable[[], NodeMemory]:
    """Return a function that measures.

    Args:
        path: /proc/meminfo, or the folder of a memory cgroup (version 1 or 2) that the donor runs in.

    Raises:
        UsageError: It is neither.
    """
    if not path.exists():
        raise UsageError(f"{path}: No such file or directory")
    if path.is_dir():
        if (path / "memory.max").exists():
            return lambda: _cgroup(path, "memory.max", "memory.current", "inactive_file")
        if (path / "memory.limit_in_bytes").exists():
            return lambda: _cgroup(path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        raise UsageError(f"{path}: no folder of a memory cgroup")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        _parsed_meminfo(os.pread(descriptor, 8192, 0), path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return lambda: _parsed_meminfo(os.pread(descriptor, 8192, 0), path)


def _parsed_meminfo(text: bytes, path: Path) -> NodeMemory:
    found = {name: int(value) << 10 for name, value in _FIELD.findall(text)}
    if len(found) < 2:
        raise UsageError(f"{path}: has no MemTotal and MemAvailable")
    return NodeMemory(found[b"MemTotal"], found[b"MemAvailable"])


def _cgroup(folder: Path, limit: str, usage: str, reclaimable: str) -> NodeMemory:
    node = _parsed_meminfo(MEMINFO.read_bytes(), MEMINFO)
    text = (folder / limit).read_text().strip()
    total = min(int(text), node.total_bytes) if text != "max" else node.total_bytes
    cache = dict(line.split(maxsplit=1) for line in (folder / "memory.stat").read_text().splitlines())
    used = int((folder / usage).read_text()) - int(cache.get(reclaimable, "0"))
    return NodeMemory(total, max(0, min(total - used, node.available_bytes)))
