"""The pages of mapped memory. Pages are made and freed while other threads run: mmap's own calls hold the interpreter's lock."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PAGE = mmap.PAGESIZE
_PIECE = 8 << 20  # bytes of one NumPy call, which lets other threads run
_LIBC = ctypes.CDLL(None, use_errno=True)


def touch(memory: mmap.mmap) -> None:
    """Make every page of a new file's mapping present; its bytes are zero."""
    pages: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)[::_PAGE]
    for start in range(0, len(pages), _PIECE // _PAGE):
        pages[start : start + _PIECE // _PAGE] = 0


def free_shared(memory: mmap.mmap) -> None:
    """Free the pages of a file and of its mapping: both read as zeros from now on. Memory that cannot be freed so is left."""
    _advise(np.frombuffer(memory, np.uint8), mmap.MADV_REMOVE)


def free_private(array: NDArray[Any]) -> None:
    """Free the whole pages of an array: they read as zeros from now on."""
    _advise(array.view(np.uint8).reshape(-1), mmap.MADV_DONTNEED)


def _advise(content: NDArray[np.uint8], advice: int) -> None:
    start, end = content.ctypes.data, content.ctypes.data + content.nbytes
    start, end = -(-start // _PAGE) * _PAGE, end // _PAGE * _PAGE
    if end > start:
        _LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), ctypes.c_int(advice))
