"""The thread that measures the node's memory, and allocates and releases slabs in steps: no connection waits for it.

One thread does all three, so that a measurement and the memory of the slabs belong to the same moment. Measurements come first,
then releases.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.donor.lent_slab import LentSlab

PREFERRED_NICE = -10


def prefer_thread() -> None:
    """Let this thread run before others where the process may: memory has to be returned before a local process needs it."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PREFERRED_NICE)


class SlabMemoryThread:
    """Allocates and releases slabs.

    Args:
        slab_bytes: Bytes of a slab.
        measure: Measures; called with the memory of all slabs that is not released.
        poll_s: Seconds between two measurements.

    Attributes:
        held_bytes: The memory of all slabs that is not released.
    """

    def __init__(self, slab_bytes: int, measure: Callable[[int], None], poll_s: float) -> None:
        self._slab_bytes, self._measure, self._poll_s = slab_bytes, measure, poll_s
        self._requested: deque[Callable[[LentSlab | None], None]] = deque()
        self._released: deque[LentSlab] = deque()
        self._work = threading.Condition()
        self._stopping = False
        self._allocating: LentSlab | None = None
        self.held_bytes = 0

    def allocate(self, allocated: Callable[[LentSlab | None], None]) -> None:
        """Allocate a slab; `allocated` is called by the thread, with None where the kernel has no memory."""
        with self._work:
            self._requested.append(allocated)
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
        prefer_thread()
        next_poll = time.monotonic()
        while not self._stopping:
            now = time.monotonic()
            if now >= next_poll:
                next_poll = now + self._poll_s
                self._measure(self.held_bytes)
            elif self._released:
                self._release_step(self._released[0])
            elif self._requested:
                self._allocate_step()
            else:
                with self._work:
                    self._work.wait_for(lambda: self._stopping or self._released or self._requested, next_poll - now)

    def _release_step(self, slab: LentSlab) -> None:
        before = slab.populated
        if slab.release_step():
            self._released.popleft()
        self.held_bytes -= before - slab.populated

    def _allocate_step(self) -> None:
        slab = self._allocating = self._allocating or LentSlab(self._slab_bytes)
        before = slab.populated
        try:
            ready = slab.populate_step()
        except OSError as error:
            log_line(f"remote memory: no memory for a slab: {error.strerror}")
            self._released.append(slab)
            self._end_allocation(None)
            return
        self.held_bytes += slab.populated - before
        if ready:
            self._end_allocation(slab)

    def _end_allocation(self, slab: LentSlab | None) -> None:
        self._allocating = None
        self._requested.popleft()(slab)
