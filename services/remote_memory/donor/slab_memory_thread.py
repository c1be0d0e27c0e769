"""The thread that allocates and releases slabs: releases come first, and a connection never waits for either."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.donor.lent_slab import LentSlab


class SlabMemoryThread:
    """Allocates and releases slabs.

    Args:
        slab_bytes: Bytes of a slab.
    """

    def __init__(self, slab_bytes: int) -> None:
        self._slab_bytes = slab_bytes
        self._wanted: deque[Callable[[LentSlab | None], None]] = deque()
        self._released: deque[LentSlab] = deque()
        self._work = threading.Condition()
        self._stopping = False
        self._allocating: LentSlab | None = None
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """The memory of all slabs that are not released yet."""
        return self._held

    @property
    def allocations(self) -> int:
        """How many slabs are being allocated."""
        return len(self._wanted)

    def allocate(self, allocated: Callable[[LentSlab | None], None]) -> None:
        """Allocate a slab; `allocated` is called by the thread, with None where the kernel has no memory."""
        with self._work:
            self._wanted.append(allocated)
            self._work.notify()

    def release(self, slab: LentSlab) -> None:
        """Release a slab."""
        with self._work:
            self._released.append(slab)
            self._work.notify()

    def stop(self) -> None:
        """End run()."""
        with self._work:
            self._stopping = True
            self._work.notify()

    def run(self) -> None:
        """Work until stop()."""
        while not self._stopping:
            with self._work:
                self._work.wait_for(lambda: self._stopping or self._released or self._wanted)
            if self._released:
                slab = self._released.popleft()
                populated = slab.populated
                slab.release()
                self._held -= populated
            elif self._wanted:
                self._allocate_step()

    def _allocate_step(self) -> None:
        slab = self._allocating = self._allocating or LentSlab(self._slab_bytes)
        before = slab.populated
        try:
            ready = slab.populate_step()
        except OSError as error:
            log_line(f"remote memory: no memory for a slab: {error.strerror}")
            self._end_allocation(None)
            self._held -= before
            slab.release()
            return
        self._held += slab.populated - before
        if ready:
            self._end_allocation(slab)

    def _end_allocation(self, slab: LentSlab | None) -> None:
        self._allocating = None
        self._wanted.popleft()(slab)
