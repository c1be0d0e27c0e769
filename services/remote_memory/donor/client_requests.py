"""The requests of clients: each reaches the slabs of its own connection only. All of it runs in the thread of the loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tiresias.services.remote_memory.donor.donor_settings import DonorSettings
from tiresias.services.remote_memory.donor.lent_slab import LentSlab
from tiresias.services.remote_memory.donor.slab_evictions import SlabEvictions
from tiresias.services.remote_memory.donor.slab_memory_thread import SlabMemoryThread
from tiresias.services.remote_memory.donor.slab_pool import SlabPool
from tiresias.services.remote_memory.messages.donor_messages import (
    FreeMemory,
    MapSlab,
    PagesRead,
    PagesWritten,
    QueryMemory,
    ReadPages,
    ReportActivity,
    ReturnSlab,
    SlabMapped,
    SlabsEvicted,
    WritePages,
)
from tiresias.services.wire import refusal_codes
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.server_loop import ServerLoop
from tiresias.services.wire.session_messages import Refused

MAX_REQUEST_BYTES = 4 << 20
MAX_UNREAD_BYTES = 8 << 20  # of answers that a client has not received


class ClientRequests:
    """What clients request.

    Args:
        settings: The configuration.
        pool: The slabs.
        memory: Allocates slabs.
        evictions: The evictions.
        available: How many slabs can be mapped now.
        loop: The loop that runs this.
    """

    def __init__(
        self,
        settings: DonorSettings,
        pool: SlabPool,
        memory: SlabMemoryThread,
        evictions: SlabEvictions,
        available: Callable[[], int],
        loop: Callable[[], ServerLoop],
    ) -> None:
        self._settings, self._pool, self._memory, self._evictions = settings, pool, memory, evictions
        self._available, self._loop = available, loop
        self._mapping: dict[Connection, int] = {}
        self.read_bytes = self.written_bytes = 0

    @property
    def mapping(self) -> int:
        """How many slabs are being allocated for clients."""
        return sum(self._mapping.values())

    def place(self, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        """Return the memory for pages; None where they are refused."""
        if not isinstance(content, WritePages):
            raise BadFrame(f"{connection.peer}: {type(content).__name__} with a payload")
        if payload_bytes > MAX_REQUEST_BYTES:
            raise BadFrame(f"{connection.peer}: {payload_bytes} bytes in one request; the limit is {MAX_REQUEST_BYTES}")
        memory = self._range(connection, content.handle, content.offset, payload_bytes)
        if memory is None:
            connection.send(_unknown(content.request, content.handle))
        return memory

    def received(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        """Carry out a request."""
        if isinstance(content, ReadPages):
            self._read(connection, content)
        elif isinstance(content, WritePages):
            self._written(connection, content, payload)
        elif isinstance(content, QueryMemory):
            connection.send(FreeMemory(content.request, self._free_for(connection)))
        elif isinstance(content, MapSlab):
            self._map(connection, content)
        elif isinstance(content, ReportActivity):
            self._evictions.reported(connection, content, ServerLoop.now())
        elif isinstance(content, SlabsEvicted):
            self._evictions.answered(connection, content.handles)
        elif isinstance(content, ReturnSlab):
            if found := self._pool.find(connection, content.handle):
                self._pool.release(found)
        else:
            raise BadFrame(f"{connection.peer}: {type(content).__name__} from a client")

    def closed(self, connection: Connection) -> None:
        """Release the slabs of a connection that has ended."""
        self._mapping.pop(connection, None)
        for each in self._pool.of(connection):
            self._pool.release(each)

    def _range(self, connection: Connection, handle: int, offset: int, size: int) -> memoryview | None:
        """Return a part of a slab; None where the slab is not of this connection, or no longer."""
        found = self._pool.find(connection, handle)
        if offset + size > self._settings.slab_bytes:
            raise BadFrame(
                f"{connection.peer}: bytes {offset} to {offset + size} of a slab of {self._settings.slab_bytes}"
            )
        return found.slab.memory[offset : offset + size] if found else None

    def _read(self, connection: Connection, content: ReadPages) -> None:
        if content.size > MAX_REQUEST_BYTES:
            raise BadFrame(f"{connection.peer}: {content.size} bytes in one request; the limit is {MAX_REQUEST_BYTES}")
        if connection.queued and connection.queued_bytes > MAX_UNREAD_BYTES:
            raise BadFrame(f"{connection.peer}: requests further pages without reading the answers")
        memory = self._range(connection, content.handle, content.offset, content.size)
        if memory is None:
            connection.send(_unknown(content.request, content.handle))
            return
        self.read_bytes += content.size
        connection.send_now(PagesRead(content.request), memory)  # the slab may change before all of it is sent

    def _written(self, connection: Connection, content: WritePages, payload: memoryview | None) -> None:
        if payload is None:
            return  # refused before its payload
        if self._pool.find(connection, content.handle) is None:  # it was evicted while the payload arrived
            connection.send(_unknown(content.request, content.handle))
            return
        self.written_bytes += len(payload)
        connection.send(PagesWritten(content.request))

    def _free_for(self, connection: Connection) -> int:
        of_client = len(self._pool.of(connection)) + self._mapping.get(connection, 0)
        return max(0, min(self._available() - self.mapping, self._settings.client_slabs - of_client))

    def _map(self, connection: Connection, content: MapSlab) -> None:
        if content.slab_bytes != self._settings.slab_bytes:
            text = f"this donor's slabs have {self._settings.slab_bytes} bytes, not {content.slab_bytes}"
            connection.send(Refused(refusal_codes.FATAL, text, step=content.request))
        elif self._free_for(connection) < 1:
            connection.send(Refused(refusal_codes.UNKNOWN, "no memory is free", step=content.request))
        elif (slab := self._pool.take_ready()) is not None:
            connection.send(SlabMapped(content.request, self._pool.map(connection, slab)))
        else:
            self._mapping[connection] = self._mapping.get(connection, 0) + 1
            allocated = partial(self._allocated, connection, content.request)
            self._memory.allocate(lambda slab: self._loop().call(partial(allocated, slab)))

    def _allocated(self, connection: Connection, request: int, slab: LentSlab | None) -> None:
        if connection not in self._mapping:  # it has ended
            if slab is not None:
                self._memory.release(slab)
            return
        self._mapping[connection] -= 1
        if slab is None:
            connection.send(Refused(refusal_codes.UNKNOWN, "no memory is free", step=request))
        else:
            connection.send(SlabMapped(request, self._pool.map(connection, slab)))


def _unknown(request: int, handle: int) -> Refused:
    return Refused(refusal_codes.UNKNOWN, f"no slab {handle} of this connection", step=request)
