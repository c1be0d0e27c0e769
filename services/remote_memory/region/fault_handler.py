"""The process that resolves the page faults of a region: python -m tiresias.services.remote_memory.region.fault_handler FD FD FD

RemoteRegion starts it with three descriptors: a socket, the userfaultfd and the memory file. It is a process of its own because a
thread that waits for a page may hold the interpreter's lock of its program.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import selectors
import signal
import socket
import sys
import time
from itertools import groupby
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.client.remote_pages import RemotePages
from tiresias.services.remote_memory.region.region_messages import FORGET, RANGE
from tiresias.services.remote_memory.region.resident_pages import MOST_READAHEAD, ResidentPages
from tiresias.services.remote_memory.region.userfault import (
    PageFault,
    copy_in,
    protect,
    punch_hole,
    read_faults,
    wake,
)
from tiresias.services.wire.peer_identity import parsed_identity

BATCH = 32  # pages that leave together


class FaultHandler:
    """The pages of one region.

    Args:
        userfault: Its userfaultfd.
        memory: Its memory file.
        address: Where the program has mapped it.
        pages: Where pages are that are not resident.
        limit: How many pages may be resident.
    """

    def __init__(self, userfault: int, memory: int, address: int, pages: RemotePages, limit: int) -> None:
        self._userfault, self._memory, self._address, self._pages = userfault, memory, address, pages
        self._size = pages.settings.page_bytes
        self._map = memoryview(mmap.mmap(memory, pages.settings.pages * self._size, mmap.MAP_SHARED))
        self._resident = ResidentPages(limit, pages.settings.pages)
        self._stored: set[int] = set()
        self._buffer = mmap.mmap(-1, MOST_READAHEAD * self._size)
        self._content = memoryview(self._buffer)
        first = ctypes.c_char.from_buffer(self._buffer)
        self._source = ctypes.addressof(first)
        self.counts = {
            "faults": 0,
            "pages_in": 0,
            "zero_pages": 0,
            "pages_out": 0,
            "clean_pages": 0,
            "in_s": 0.0,
            "out_s": 0.0,
        }

    def resolve(self, fault: PageFault) -> None:
        """Let a thread continue."""
        self.counts["faults"] += 1
        page = (fault.address - self._address) // self._size
        if page not in self._resident:
            self._bring_in(page, fault.write)
        elif fault.write:
            self._resident.changed(page)
            protect(self._userfault, self._address + page * self._size, self._size, on=False)
        else:
            wake(self._userfault, self._address + page * self._size, self._size)

    def forget(self, page: int, count: int) -> None:
        """Make pages zero: their content is of no use to the program any more."""
        for at in self._resident.within(page, count):
            self._resident.remove(at)
        self._stored.difference_update(_common(self._stored, page, count))
        punch_hole(self._memory, page * self._size, count * self._size)

    def answer(self, request: bytes, control: socket.socket) -> dict[str, Any]:
        """Carry out a request of the program: FORGET with a range, or STATISTICS."""
        if request == FORGET:
            self.forget(*RANGE.unpack(control.recv(RANGE.size, socket.MSG_WAITALL)))
            return {}
        return self.statistics()

    def statistics(self) -> dict[str, Any]:
        """Return what was done, and the statistics of the pages."""
        return {**self.counts, "resident_pages": len(self._resident), **self._pages.statistics()}

    def _bring_in(self, page: int, write: bool) -> None:
        count = self._resident.readahead(page)
        self._send_out(self._resident.leaving(count, BATCH))
        started = time.perf_counter()
        self._read(page, count)
        self._copy(page, 1, write)
        if count > 1:
            self._copy(page + 1, count - 1, changed=False, source=1)
        self.counts["in_s"] += time.perf_counter() - started

    def _read(self, page: int, count: int) -> None:
        view = self._content[: count * self._size]
        stored = [at in self._stored for at in range(page, page + count)]
        if any(stored):
            self._pages.read_into(page, view)
            for at in (at for at, each in enumerate(stored) if not each):  # its old content may be forgotten
                view[at * self._size : (at + 1) * self._size] = bytes(self._size)
            self.counts["pages_in"] += count
        else:  # a page that never left is zero
            view[:] = bytes(len(view))
            self.counts["zero_pages"] += count

    def _copy(self, page: int, count: int, changed: bool, source: int = 0) -> None:
        """Put pages in place; they are protected until they are changed."""
        address, content = self._address + page * self._size, self._source + source * self._size
        for at in range(page, page + count):
            self._resident.add(at, changed)
        if not copy_in(self._userfault, address, content, count * self._size, protected=not changed):
            raise RuntimeError(f"page {page} of a region is there, and was not brought in")

    def _send_out(self, pages: list[int]) -> None:
        """Store the changed pages and remove all of them."""
        if not pages:
            return
        started = time.perf_counter()
        for first, count in _runs(pages):
            changed = [at for at in range(first, first + count) if self._resident.is_changed(at)]
            for start, length in _runs(changed):
                self._store(start, length)
            punch_hole(self._memory, first * self._size, count * self._size)
            for at in range(first, first + count):
                self._resident.remove(at)
            self.counts["pages_out"] += len(changed)
            self.counts["clean_pages"] += count - len(changed)
        self.counts["out_s"] += time.perf_counter() - started

    def _store(self, page: int, count: int) -> None:
        protect(self._userfault, self._address + page * self._size, count * self._size, on=True)
        self._pages.write(page, self._map[page * self._size : (page + count) * self._size])
        self._stored.update(range(page, page + count))


def _common(pages: set[int], first: int, count: int) -> list[int]:
    """Return the pages of a set that are in a range; the smaller of both is searched."""
    if count < len(pages):
        return [at for at in range(first, first + count) if at in pages]
    return [at for at in pages if first <= at < first + count]


def _runs(pages: list[int]) -> list[tuple[int, int]]:
    """Return (first, number) of the consecutive ones among sorted pages."""
    groups = groupby(enumerate(pages), key=lambda pair: pair[1] - pair[0])
    return [(found[0][1], len(found)) for found in (list(group) for _, group in groups)]


def serve(handler: FaultHandler, control: socket.socket, userfault: int) -> None:
    """Resolve faults until the program closes its socket."""
    selector = selectors.DefaultSelector()
    selector.register(userfault, selectors.EVENT_READ)
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not control:
                for fault in read_faults(userfault):
                    handler.resolve(fault)
            elif not (request := control.recv(1)):
                return
            else:
                control.sendall(json.dumps(handler.answer(request, control)).encode() + b"\n")


def main(argv: list[str] | None = None) -> int:
    """Serve a region; return the exit code."""
    control_fd, userfault, memory = map(int, argv or sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program decides about it
    control = socket.socket(fileno=control_fd)
    stream = control.makefile("r")
    content = json.loads(stream.readline())
    try:
        settings = RegionSettings(
            parsed_identity(content.pop("identity")),
            bytes.fromhex(content.pop("key")),
            tuple(content.pop("donors")),
            Path(content.pop("disk")),
            **content["options"],
        )
        with RemotePages(settings) as pages:
            handler = FaultHandler(userfault, memory, content["address"], pages, content["limit"])
            control.sendall(b"{}\n")
            serve(handler, control, userfault)
    except (TiresiasError, OSError) as error:
        log_line(f"remote memory: the region's process ends: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
