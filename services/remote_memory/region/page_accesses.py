"""Which pages a program has accessed since they were unmapped: the kernel maps a page again at its first access, without a fault of
the region. /proc/PID/pagemap has which pages are mapped (proc_pid_pagemap(5)).

A page is unmapped by its removal from the memory file and a write of the same content to the file, which no mapping has then.
"""

from __future__ import annotations

import ctypes
import mmap
import os

_ENTRY_BYTES = 8  # one for each page
_PRESENT = 0x80  # of the last byte: bit 63


class PageAccesses:
    """The mapped pages of a program's region.

    Args:
        process: The program.
        address: Where it has mapped the region.

    Raises:
        OSError: The kernel has no pagemap, or this user may not read that of the program.
    """

    def __init__(self, process: int, address: int) -> None:
        self._first = address // mmap.PAGESIZE
        self._file = os.open(f"/proc/{process}/pagemap", os.O_RDONLY | os.O_CLOEXEC)

    def of(self, page: int, count: int) -> list[bool]:
        """Return whether each of these pages is mapped; all are where that is not found."""
        try:
            entries = os.pread(self._file, count * _ENTRY_BYTES, (self._first + page) * _ENTRY_BYTES)
        except OSError:
            entries = b""
        found = [bool(last & _PRESENT) for last in entries[_ENTRY_BYTES - 1 :: _ENTRY_BYTES]]
        return found if len(found) == count else [True] * count

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def are_accesses_known() -> bool:
    """Return whether the kernel reports to this user which pages are mapped: one that is not touched is not, then it is."""
    with mmap.mmap(-1, mmap.PAGESIZE) as memory:
        address = _address_of(memory)
        try:
            accesses = PageAccesses(os.getpid(), address)
        except OSError:
            return False
        try:
            before = accesses.of(0, 1)
            memory[0] = 1
            return (before, accesses.of(0, 1)) == ([False], [True])
        finally:
            accesses.close()


def _address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
