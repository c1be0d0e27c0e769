"""The slabs of a donor: ready ones, and those that connections have mapped. All of it runs in the thread of the loop."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from tiresias.services.remote_memory.donor.lent_slab import LentSlab
from tiresias.services.remote_memory.donor.slab_memory_thread import SlabMemoryThread
from tiresias.services.remote_memory.slabs.donor_memory import SlabCounts
from tiresias.services.wire.connection import Connection


class MappedSlab:
    """A slab that a connection has mapped.

    Attributes:
        handle: Its number; a number is used once.
        connection: Its only user.
        slab: Its memory.
        leaving: Whether it is being evicted.
    """

    __slots__ = ("connection", "handle", "leaving", "slab")

    def __init__(self, handle: int, connection: Connection, slab: LentSlab) -> None:
        self.handle, self.connection, self.slab = handle, connection, slab
        self.leaving = False


class SlabPool:
    """The slabs of a donor.

    Args:
        memory: Allocates and releases them.

    Attributes:
        mapped: The mapped slabs by handle.
    """

    def __init__(self, memory: SlabMemoryThread) -> None:
        self._memory = memory
        self._ready: list[LentSlab] = []
        self._handles = count(1)
        self._leaving = 0
        self.mapped: dict[int, MappedSlab] = {}

    def counts(self) -> SlabCounts:
        """Return how many slabs there are."""
        return SlabCounts(len(self._ready), len(self.mapped), self._leaving)

    def of(self, connection: Connection) -> list[MappedSlab]:
        """Return the slabs of a connection."""
        return [each for each in self.mapped.values() if each.connection is connection]

    def find(self, connection: Connection, handle: int) -> MappedSlab | None:
        """Return a slab of this connection; None where the handle is not one of its slabs."""
        found = self.mapped.get(handle)
        return found if found is not None and found.connection is connection else None

    def add_ready(self, slab: LentSlab) -> None:
        """Keep an allocated slab for a client."""
        self._ready.append(slab)

    def take_ready(self) -> LentSlab | None:
        """Return an allocated slab that no client has."""
        return self._ready.pop() if self._ready else None

    def map(self, connection: Connection, slab: LentSlab) -> int:
        """Give a slab to a connection and return its handle."""
        handle = next(self._handles)
        self.mapped[handle] = MappedSlab(handle, connection, slab)
        return handle

    def leave(self, slabs: Iterable[MappedSlab]) -> None:
        """Note that slabs are being evicted."""
        for each in slabs:
            self._leaving += not each.leaving
            each.leaving = True

    def release(self, each: MappedSlab) -> None:
        """Release a mapped slab; without effect where it is released."""
        if self.mapped.pop(each.handle, None) is not None:
            self._leaving -= each.leaving
            self._memory.release(each.slab)

    def release_ready(self, slabs: int) -> None:
        """Release ready slabs."""
        for _ in range(min(slabs, len(self._ready))):
            self._memory.release(self._ready.pop())
