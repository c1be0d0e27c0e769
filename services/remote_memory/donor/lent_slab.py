"""The memory of one slab: anonymous, of this process alone, and lent once.

The kernel zeroes it before it is lent. When it is released its pages return to the kernel, and no other slab gets this mapping.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress

MADV_POPULATE_WRITE = 23  # Linux 5.14
MADV_DONTNEED = 4
MADV_DONTDUMP = 16
STEP_BYTES = 8 << 20

_LIBC = ctypes.CDLL(None, use_errno=True)  # its calls run without the interpreter's lock; those of mmap do not
_LIBC.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class LentSlab:
    """A slab's memory.

    Args:
        size: Its bytes, a multiple of the page size.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        first = ctypes.c_char.from_buffer(self._map)
        self._address = ctypes.addressof(first)
        del first
        self._advise(0, size, MADV_DONTDUMP)
        self.populated = 0
        self.memory = memoryview(self._map)

    def populate_step(self) -> bool:
        """Allocate some of the memory; return whether all of it is allocated.

        Raises:
            OSError: The kernel has no memory.
        """
        size = min(STEP_BYTES, self.size - self.populated)
        if self._advise(self.populated, size, MADV_POPULATE_WRITE) == -1:
            if ctypes.get_errno() != 22:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            _touch(self.memory[self.populated : self.populated + size])  # a kernel before 5.14
        self.populated += size
        return self.populated == self.size

    def release_step(self) -> bool:
        """Return some of the memory to the kernel; return whether all of it is returned.

        A frame that is being received into the slab ends in pages of this mapping, which no other slab gets.
        """
        size = min(STEP_BYTES, self.populated)
        self._advise(self.populated - size, size, MADV_DONTNEED)
        self.populated -= size
        if self.populated:
            return False
        with suppress(BufferError):  # a connection receives into it; the mapping ends with its last reference
            self.memory.release()
            self._map.close()
        return True

    def _advise(self, at: int, size: int, advice: int) -> int:
        return int(_LIBC.madvise(self._address + at, size, advice))


def _touch(memory: memoryview) -> None:
    for at in range(0, len(memory), mmap.PAGESIZE):
        memory[at] = 0
