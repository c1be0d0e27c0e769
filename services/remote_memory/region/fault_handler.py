"""The process that resolves the page faults of a region: python -m tiresias.services.remote_memory.region.fault_handler FD FD FD

RemoteRegion starts it with three descriptors: a socket, the userfaultfd and the memory file. It is a process of its own because a
thread that waits for a page may hold the interpreter's lock of its program.
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.client.remote_pages import RemotePages
from tiresias.services.remote_memory.region.leaving_pages import LeavingPages, MappedRegion, new_counts
from tiresias.services.remote_memory.region.page_accesses import PageAccesses, are_accesses_known
from tiresias.services.remote_memory.region.page_buffers import PageBuffer
from tiresias.services.remote_memory.region.read_ahead import ReadAhead
from tiresias.services.remote_memory.region.read_streams import MOST_WINDOW, ReadStream, ReadStreams
from tiresias.services.remote_memory.region.region_messages import FORGET, RANGE
from tiresias.services.remote_memory.region.resident_pages import ResidentPages
from tiresias.services.remote_memory.region.userfault import (
    PageFault,
    copy_in,
    protect,
    punch_hole,
    read_faults,
    wake,
    zero_in,
)
from tiresias.services.remote_memory.region.write_stream import WriteStream
from tiresias.services.wire.peer_identity import parsed_identity

BATCH = 64  # pages that leave together
LEAST_RESERVE = 64  # free pages that are kept, so that a fault does not wait until others have left
SWITCH_INTERVAL_S = 0.0005  # after which the thread of the faults gets the interpreter's lock from another one
_PEER = struct.Struct("iII")  # of SO_PEERCRED: process, user, group
FIRST_CHUNK = 16  # pages that follow the one that a thread waits for


class FaultHandler:
    """The pages of one region.

    Args:
        userfault: Its userfaultfd.
        memory: Its memory file.
        address: Where the program has mapped it.
        pages: Where pages are that are not resident.
        limit: How many pages may be resident.
        accesses: What the program accesses; None where the kernel does not report it.
    """

    def __init__(
        self,
        userfault: int,
        memory: int,
        address: int,
        pages: RemotePages,
        limit: int,
        accesses: PageAccesses | None = None,
    ) -> None:
        self._userfault, self._memory, self._address, self._pages = userfault, memory, address, pages
        self._size = pages.settings.page_bytes
        most_window = max(1, min(MOST_WINDOW, limit // 16))
        self._most_reserve, self._batch = limit // 8, min(BATCH, limit // 4)
        self._resident = ResidentPages(limit, pages.settings.pages)
        self._stored = bytearray(pages.settings.pages)  # 1: it has left once
        self._streams = ReadStreams(self._resident, most_window)
        self._ahead = ReadAhead(pages, self._resident, self._streams, most_window)
        self._writes = WriteStream(self._resident, most_window)
        self._in_sequence = False  # whether the pages that come in now are those of a sequence
        self._buffer = PageBuffer(most_window * self._size)
        self._zeros = PageBuffer(most_window * self._size)
        self.counts = new_counts()
        mapped = MappedRegion(userfault, memory, address, self._size)
        self._leaving = LeavingPages(mapped, pages, self._resident, self._stored, accesses, self.counts)

    def resolve(self, fault: PageFault) -> None:
        """Let a thread continue."""
        self.counts["faults"] += 1
        page = (fault.address - self._address) // self._size
        if page not in self._resident:
            self._bring_in(page, fault.write)
        elif fault.write:
            self._allow_writes(page)
        else:
            wake(self._userfault, self._address + page * self._size, self._size)

    def work(self) -> bool:
        """Do a part of what is done ahead of need; return whether there was some."""
        return self._ahead.begin(self._stored) or self._keep_reserve() or self._ahead.settle()

    def _keep_reserve(self) -> bool:
        reserve = min(max(LEAST_RESERVE, 3 * self._streams.widest // 2), self._most_reserve)
        if self._resident.free >= min(reserve, self._resident.absent):
            return False
        self._leaving.send_out(self._batch)
        return True

    def forget(self, page: int, count: int) -> None:
        """Make pages zero: their content is of no use to the program any more. O(resident runs)."""
        count = min(count, self._resident.pages - page)
        self._ahead.forget(page, count)
        self._resident.forget(page, count)
        self._stored[page : page + count] = bytes(count)
        punch_hole(self._memory, page * self._size, count * self._size)

    def answer(self, request: bytes, control: socket.socket) -> dict[str, Any]:
        """Carry out a request of the program: FORGET with a range, or STATISTICS."""
        if request == FORGET:
            self.forget(*RANGE.unpack(control.recv(RANGE.size, socket.MSG_WAITALL)))
            return {}
        return self.statistics()

    def statistics(self) -> dict[str, Any]:
        """Return what was done, and the statistics of the pages."""
        own = {"resident_pages": len(self._resident), "dropped_pages": self._ahead.dropped_pages}
        return {**self.counts, **own, **self._pages.statistics()}

    # -- pages that come in ------------------------------------------------------------------------------------------------------

    def _bring_in(self, page: int, write: bool) -> None:
        started = time.perf_counter()
        stream = self._streams.at_fault(page, write)
        self._ahead.drop_ended()
        found = self._ahead.take(stream, page)
        if found:
            (first, count), buffer = found
            self._clear_unstored(first, count, buffer)
            self.counts["pages_in"] += count
            self.counts["ahead_pages"] += count
            self._place(stream, first, count, page, buffer, write)
            self._ahead.give_back(buffer)
        else:
            self._read(stream, page, write)
        self.counts["in_s"] += time.perf_counter() - started
        self._keep_reserve()

    def _read(self, stream: ReadStream, page: int, write: bool) -> None:
        first, count = self._streams.run_at(stream, page)
        if count > self._resident.free:
            self._leaving.send_out(max(self._batch, count - self._resident.free))
        self._resident.come(first, count)
        if self._stored.find(1, first, first + count) != -1:
            self._pages.read_into(first, self._buffer.view[: count * self._size])
            self._clear_unstored(first, count, self._buffer)
            self.counts["pages_in"] += count
            self._place(stream, first, count, page, self._buffer, write)
        else:  # pages that never left are zero
            self.counts["zero_pages"] += count
            self._place(stream, first, count, page, self._zeros, write)

    def _clear_unstored(self, first: int, count: int, buffer: PageBuffer) -> None:
        """Make the pages zero that never left, or were forgotten."""
        at = first
        while (at := self._stored.find(0, at, first + count)) != -1:
            start = (at - first) * self._size
            buffer.view[start : start + self._size] = bytes(self._size)
            at += 1

    def _place(self, stream: ReadStream, first: int, count: int, page: int, buffer: PageBuffer, write: bool) -> None:
        """Put pages in place, that of the fault first. It is protected against writes, so that the next ones are noticed."""
        end, written, self._in_sequence = first + count, stream.written and stream.continued > 0, stream.is_followed
        self._copy(page, 1, buffer, page - first, changed=write)
        self._copy(page + 1, min(FIRST_CHUNK, end - page - 1), buffer, page + 1 - first, written)
        stream.end = max(stream.end, end)
        self._ahead.begin(self._stored)  # donors work while the rest is copied
        rest = min(end, page + 1 + FIRST_CHUNK)
        self._copy(rest, end - rest, buffer, rest - first, written)
        self._copy(first, page - first, buffer, 0, written)
        stream.start, stream.written = first, write

    def _copy(self, page: int, count: int, buffer: PageBuffer, source: int, changed: bool) -> None:
        if not count:
            return
        address, size = self._address + page * self._size, count * self._size
        self._resident.add(page, count, changed, self._in_sequence)
        if changed and buffer is self._zeros:
            done = zero_in(self._userfault, address, size)
        else:
            done = copy_in(self._userfault, address, buffer.address + source * self._size, size, not changed)
        if not done:
            raise RuntimeError(f"page {page} of a region is there, and was not brought in")

    def _allow_writes(self, page: int) -> None:
        self.counts["write_faults"] += 1
        first, count = self._writes.at_fault(page)
        self._streams.written(page)
        self._resident.changed(first, count)
        protect(self._userfault, self._address + first * self._size, count * self._size, on=False)


def accesses_of(control: socket.socket, address: int) -> PageAccesses | None:
    """Return the accesses of the program at the other end of a socket; None where the kernel does not report them."""
    with suppress(OSError):
        return PageAccesses(peer_process(control), address) if are_accesses_known() else None
    return None


def peer_process(control: socket.socket) -> int:
    """Return the process at the other end of a socket."""
    return int(_PEER.unpack(control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0])


def serve(handler: FaultHandler, pages: RemotePages, control: socket.socket, userfault: int) -> None:
    """Resolve faults until the program closes its socket; work ahead while there are none."""
    selector = selectors.DefaultSelector()
    for each in (userfault, control, pages):
        selector.register(each, selectors.EVENT_READ)
    busy = True
    while True:
        ready = [key.fileobj for key, _ in selector.select(0 if busy else None)]
        if userfault in ready:
            for fault in read_faults(userfault):
                handler.resolve(fault)
            busy = True
            continue  # the next fault comes before the work ahead
        if control in ready:
            if not (request := control.recv(1)):
                return
            control.sendall(json.dumps(handler.answer(request, control)).encode() + b"\n")
        if pages in ready:
            pages.receive()
        busy = handler.work() or pages in ready


def ignore_signals() -> None:
    """Leave to the program what a terminal or Slurm sends to all processes of a step: the handler ends after it."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, signal.SIG_IGN)


def main(argv: list[str] | None = None) -> int:
    """Serve a region; return the exit code."""
    control_fd, userfault, memory = map(int, argv or sys.argv[1:])
    ignore_signals()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
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
            address = content["address"]
            accesses = accesses_of(control, address)
            handler = FaultHandler(userfault, memory, address, pages, content["limit"], accesses)
            control.sendall(b"{}\n")
            serve(handler, pages, control, userfault)
    except (TiresiasError, OSError) as error:
        log_line(f"remote memory: the region's process ends: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
