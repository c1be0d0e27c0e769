"""The buffers of one rank's part, read and verified at once into memory of the program's own; or mapped where that is scarce.

Buffers are read into regions: one memory for each large buffer, with the small ones before it. What a program keeps of a restored
state then keeps little else in memory.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from tiresias.checkpoint import available_memory
from tiresias.checkpoint.blocks import opened, read_hashed, refuse_other, tree_hash
from tiresias.checkpoint.manifest import Content

REGION = 4 << 20  # bytes of a region, at least; and at most MAX_REGIONS of them: a process may have 65,530 mappings
MAX_REGIONS = 4096
Entry = tuple[int, int]  # offset, size


def read_buffers(folder: int, name: str, content: Content, entries: Mapping[str, Entry]) -> dict[str, memoryview]:
    """The bytes of each entry of a file that is compared with `content`; read-only where they are mapped.

    Raises CorruptCheckpoint or OSError.
    """
    with opened(folder, name, content) as file:
        regions = _allocated(entries.values(), content.size)
        digest = read_hashed(file, content.size, regions.pieces) if regions else tree_hash(file, content.size)
        refuse_other(name, content, digest)
        regions = regions or Regions([0], [memoryview(mmap.mmap(file, content.size, prot=mmap.PROT_READ))])
    return {key: regions.bytes_at(offset, size) for key, (offset, size) in entries.items()}


class Regions:
    """Memory of a whole file: `memories` by the offset at which each begins, in order."""

    def __init__(self, starts: Sequence[int], memories: Sequence[memoryview]) -> None:
        self._starts, self._memories = starts, memories

    def bytes_at(self, offset: int, size: int) -> memoryview:
        """Return the memory of bytes that lie in one region."""
        index = max(bisect_right(self._starts, offset) - 1, 0)
        offset -= self._starts[index]
        return self._memories[index][offset : offset + size]

    def pieces(self, offset: int, size: int) -> list[memoryview]:
        """Return the memory of any bytes, in order."""
        found: list[memoryview] = []
        index = bisect_right(self._starts, offset) - 1
        while size:
            start = offset - self._starts[index]
            found.append(self._memories[index][start : start + size])
            offset, size, index = offset + len(found[-1]), size - len(found[-1]), index + 1
        return found


def _allocated(entries: Iterable[Entry], size: int) -> Regions | None:
    """None where memory is scarce."""
    if not size:
        return Regions([0], [memoryview(b"")])
    starts = [start for start in cuts(entries, max(REGION, size // MAX_REGIONS)) if start < size]  # an empty last entry
    with suppress(OSError, MemoryError):
        if available_memory.is_ample(size):
            ends = [*starts[1:], size]
            return Regions(starts, [_memory(end - start) for start, end in zip(starts, ends, strict=True)])
    return None


def _memory(size: int) -> memoryview:
    """Ordinary pages: huge ones took three times as long at the median in a virtual machine whose host takes back free memory."""
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def cuts(entries: Iterable[Entry], least: int) -> list[int]:
    """Return the offsets at which regions of `least` bytes or more begin. No entry lies in two, also where entries overlap."""
    found, end = [0], 0
    for offset, size in sorted(entries):
        if offset >= end and offset - found[-1] >= least:
            found.append(offset)
        end = max(end, offset + size)
    return found
