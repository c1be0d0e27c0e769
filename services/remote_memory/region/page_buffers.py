"""Buffers from which the kernel copies pages into a region."""

from __future__ import annotations

import ctypes
import mmap


class PageBuffer:
    """Memory at a fixed address.

    Attributes:
        address: Where it is.
        view: Its bytes.
    """

    __slots__ = ("address", "view")

    def __init__(self, size: int) -> None:
        memory = mmap.mmap(-1, size)
        first = ctypes.c_char.from_buffer(memory)
        self.address, self.view = ctypes.addressof(first), memoryview(memory)


class PageBuffers:
    """A bounded number of buffers of one size; each is allocated when it is first needed.

    Args:
        size: Bytes of a buffer.
        most: How many there are.
    """

    def __init__(self, size: int, most: int) -> None:
        self._size, self._left = size, most
        self._free: list[PageBuffer] = []

    def take(self) -> PageBuffer | None:
        """Return a buffer; None where all are in use."""
        if not self._free and self._left:
            self._left -= 1
            return PageBuffer(self._size)
        return self._free.pop() if self._free else None

    def give_back(self, buffer: PageBuffer) -> None:
        """Let a buffer be used again."""
        self._free.append(buffer)
