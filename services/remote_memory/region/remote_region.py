"""Memory of a program whose pages are on donors and on the local disk while they are not resident.

    with RemoteRegion(settings, resident_bytes=256 << 20) as region:
        weights = region.array((1_000_000, 64), "float32")

A process of its own resolves the page faults (fault_handler.py). Child processes do not have the region. Where the handler process
ends, pages are lost: SIGBUS ends the program, as for memory of a device that is gone.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields
from math import prod
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tiresias.errors import Unavailable, UsageError
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.region.region_messages import STATISTICS
from tiresias.services.remote_memory.region.userfault import open_userfault, register

if TYPE_CHECKING:
    import numpy as np

LEAST_RESIDENT_PAGES = 128
ALIGNMENT = 64
_SENT = {"identity", "key", "donors", "disk"}


class RemoteRegion:
    """A region of memory.

    Args:
        settings: Where its pages are; `pages` is its size, `page_bytes` the page size of the machine.
        resident_bytes: The most memory that it uses here.

    Raises:
        UsageError: The page size or `resident_bytes` is impossible.
        Unavailable: The kernel does not let this user have a userfaultfd, or the handler process did not start.
    """

    def __init__(self, settings: RegionSettings, resident_bytes: int) -> None:
        limit = resident_bytes // settings.page_bytes
        if settings.page_bytes != mmap.PAGESIZE:
            raise UsageError(f"pages of {settings.page_bytes} bytes; this machine has pages of {mmap.PAGESIZE}")
        if limit < LEAST_RESIDENT_PAGES:
            raise UsageError(
                f"{resident_bytes} resident bytes; at least {LEAST_RESIDENT_PAGES * mmap.PAGESIZE} are needed"
            )
        self.size = settings.pages * settings.page_bytes
        self._used = 0
        self._userfault = open_userfault()
        memory = os.memfd_create("tiresias-region", os.MFD_CLOEXEC)
        os.ftruncate(memory, self.size)
        self._map = mmap.mmap(memory, self.size, mmap.MAP_SHARED)
        self._map.madvise(mmap.MADV_DONTFORK)
        first = ctypes.c_char.from_buffer(self._map)
        address = ctypes.addressof(first)
        del first
        register(self._userfault, address, self.size)
        self._start(settings, memory, address, limit)
        os.close(memory)
        self._owner, self._closed = os.getpid(), False
        atexit.register(self.close)

    def _start(self, settings: RegionSettings, memory: int, address: int, limit: int) -> None:
        self._control, peer = socket.socketpair()
        self._alive, alive = os.pipe()
        descriptors = (peer.fileno(), self._userfault, memory)
        command = [sys.executable, "-m", "tiresias.services.remote_memory.region.fault_handler", *map(str, descriptors)]
        self._process = subprocess.Popen(command, pass_fds=(*descriptors, alive), start_new_session=True)
        peer.close()
        os.close(alive)
        options = {each.name: getattr(settings, each.name) for each in fields(settings) if each.name not in _SENT}
        content = {
            "identity": str(settings.identity),
            "key": settings.key.hex(),
            "donors": settings.donors,
            "disk": str(settings.disk),
            "options": options,
            "address": address,
            "limit": limit,
        }
        self._answers = self._control.makefile("r")
        with suppress(BrokenPipeError):
            self._control.sendall(json.dumps(content).encode() + b"\n")
        if not self._answers.readline():
            self._process.wait()
            raise Unavailable("the process of the region did not start: the line above has the reason")
        self._end_with_the_handler(True)

    def _end_with_the_handler(self, on: bool) -> None:
        """Get SIGBUS when the handler has ended: no thread of this program is needed for it, all may wait for pages."""
        if on:
            fcntl.fcntl(self._alive, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(self._alive, fcntl.F_SETSIG, signal.SIGBUS)
        flags = fcntl.fcntl(self._alive, fcntl.F_GETFL)
        fcntl.fcntl(self._alive, fcntl.F_SETFL, flags | os.O_ASYNC if on else flags & ~os.O_ASYNC)

    def array(self, shape: int | tuple[int, ...], dtype: Any = "float64") -> np.ndarray[Any, Any]:
        """Return a new array in the region, of zeros.

        Raises:
            UsageError: The region is full.
        """
        import numpy as np

        shape = (shape,) if isinstance(shape, int) else shape
        size = prod(shape) * np.dtype(dtype).itemsize
        start = -(-self._used // ALIGNMENT) * ALIGNMENT
        if start + size > self.size:
            raise UsageError(f"an array of {size} bytes; {max(0, self.size - start)} of the region are free")
        self._used = start + size
        return np.frombuffer(self._map, dtype, prod(shape), start).reshape(shape)

    def statistics(self) -> dict[str, Any]:
        """Return the handler's statistics: faults, pages in and out and the seconds of both, and those of the pages."""
        self._control.sendall(STATISTICS)
        return dict(json.loads(self._answers.readline()))

    def close(self) -> None:
        """End the region; its arrays must not be used any more. Without effect in a child process and when it is repeated."""
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._end_with_the_handler(False)
            self._control.shutdown(socket.SHUT_RDWR)
            self._process.wait()
        for end in (
            self._answers.close,
            self._control.close,
            lambda: os.close(self._alive),
            lambda: os.close(self._userfault),
        ):
            end()
        with suppress(BufferError):  # an array exists: the mapping ends with it
            self._map.close()

    def __enter__(self) -> RemoteRegion:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
