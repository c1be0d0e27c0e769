"""A copy in memory of what a training program wants saved, so that it can train on while the copy is written."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from typing import Any

from tiresias.checkpoint import shard

HUGE = 2 << 20  # bytes: from this size on memory comes in huge pages, which halves the time of a first touch


def take(state: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `state` that Store.save takes as well. Raises TypeError as it does, and MemoryError."""
    values, buffers = shard.sort_out(state)
    copies = {name: _copy(value) for name, value in buffers.items()}
    return {**json.loads(json.dumps(values)), **copies}


def _copy(value: Any) -> Any:
    try:
        source = memoryview(value)
    except TypeError:
        return iter([_copied(memoryview(chunk).cast("B")) for chunk in value])
    return _copied(source.cast("B"))


def _copied(source: memoryview) -> Any:
    if len(source) < HUGE:
        return bytes(source)
    memory = mmap.mmap(-1, len(source), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    memory[:] = source
    return memory
