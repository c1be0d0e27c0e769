"""Copies in memory of the state to save, so that the program trains on while a copy is written."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from typing import Any

from tiresias.checkpoint import shard

HUGE = 2 << 20  # bytes: from this size on memory comes in huge pages, which are there sooner


class Snapshots:
    """Memory that was used once is kept for the next copy: memory from the system takes as long to come as the copy itself."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}  # by size

    def take(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of `state` that Store.save takes as well. Raises TypeError as it does, and MemoryError."""
        values, buffers = shard.sort_out(state)
        copies = {name: self._copy(value) for name, value in buffers.items()}
        return {**json.loads(json.dumps(values)), **copies}

    def release(self, copy: Mapping[str, Any]) -> None:
        """It is written: its memory may be used again. What an earlier state of other sizes left is let go."""
        memories = [value for value in copy.values() if isinstance(value, mmap.mmap)]
        self._free = {len(memory): self._free.get(len(memory), []) for memory in memories}
        for memory in memories:
            self._free[len(memory)].append(memory)

    def _copy(self, value: Any) -> Any:
        try:
            source = memoryview(value)
        except TypeError:
            return iter([bytes(memoryview(chunk).cast("B")) for chunk in value])
        return self._copied(source.cast("B"))

    def _copied(self, source: memoryview) -> Any:
        size = len(source)
        if size < HUGE:
            return bytes(source)
        memory = self._free[size].pop() if self._free.get(size) else _memory(size)
        memory[:] = source
        return memory


def _memory(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
