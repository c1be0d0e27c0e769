"""A region of pages: written to a donor and to the local disk, read from the donor where it has the newest content.

    with RemotePages(settings) as region:
        region.write(0, content)
        region.read(0, pages=1)

A write waits for the donor, and only queues the page for the disk (thesis, section 2.4); a page of a slab that no donor has waits
for the disk. An evicted slab, a lost donor and a damaged answer are the same to a reader: the page comes from the queue or the
disk. A write that raises has changed nothing of the request that failed; requests are of 512 KiB at most and of one slab.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tiresias.errors import UsageError
from tiresias.services.remote_memory.client.disk_pages import DiskPages
from tiresias.services.remote_memory.client.donor_links import DonorLinks
from tiresias.services.remote_memory.client.donor_requests import DonorRequests
from tiresias.services.remote_memory.client.page_checksums import PageChecksums
from tiresias.services.remote_memory.client.page_counters import PageCounters
from tiresias.services.remote_memory.client.page_reads import PageReads, PendingRead
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.client.slab_events import SlabEvents
from tiresias.services.remote_memory.client.slab_placements import SlabPlacements
from tiresias.services.remote_memory.client.slab_request import FAILED, SlabRequest
from tiresias.services.remote_memory.slabs.slab_table import PageRange, SlabTable
from tiresias.services.wire.channel import Buffer

POLL_S = 0.02  # between two polls of the donors' messages while the region is idle
BUSY_POLL_S = 0.005  # while it is used
IDLE_POLL_S = 0.25  # without a donor


class RemotePages:
    """A region. Threads may share it; their calls are carried out one after the other.

    Args:
        settings: Its configuration.

    Raises:
        OSError: The folder on the local disk cannot be used.
    """

    def __init__(self, settings: RegionSettings) -> None:
        self.settings = settings
        self.counters = PageCounters()
        self._lock = threading.RLock()
        self._table = SlabTable(settings.pages, settings.slab_pages, settings.alpha)
        self._checksums = PageChecksums(settings.pages, settings.page_bytes)
        self._disk = DiskPages(
            settings.disk, settings.pages, settings.page_bytes, settings.queue_pages, settings.disk_timeout_s
        )
        self._links = DonorLinks(settings, SlabEvents(self._table, self.counters))
        self._placements = SlabPlacements(settings, self._table, self._links)
        self._requests = DonorRequests(settings, self._table, self._links)
        self._reads = PageReads(settings, self._table, self._requests, self._disk, self._checksums, self.counters)
        self._polled = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll_until_closed, name="remote memory", daemon=True)
        self._thread.start()

    def write(self, page: int, data: Buffer) -> None:
        """Write whole pages.

        Raises:
            UsageError: Not whole pages, or beyond the end of the region.
            LocalDiskFull: The disk takes nothing and its queue is full.
        """
        view = memoryview(data).cast("B")
        with self._lock, self.counters.writing(self._checked(page, len(view))):
            self._poll(time.monotonic())
            sent = [(each, *self._write_range(each, part)) for each, part in self._parts(page, view)]
            self._requests.wait(request for _, _, request in sent if request)
            for each, number, request in sent:
                if request is None or request.state == FAILED:
                    self._disk.wait_written(each.page, each.pages, number)
                else:
                    self.counters.written_remote += each.pages

    def queue_write(self, page: int, data: Buffer) -> None:
        """Write whole pages without a wait for donor or disk. They are in the disk's queue of `queue_pages` until it has them.

        Raises:
            UsageError: Not whole pages, or beyond the end of the region.
            LocalDiskFull: The disk takes nothing and its queue is full.
        """
        self.queue_writes([(page, data)])

    def queue_writes(self, writes: Sequence[tuple[int, Buffer]]) -> None:
        """Carry out several queue_write(); what goes to one donor is sent together. After an error some of them are not done."""
        views = [(page, memoryview(data).cast("B")) for page, data in writes]
        pages = sum(self._checked(page, len(view)) for page, view in views)
        with self._lock, self.counters.writing(pages), self._requests.sent_together():
            self._poll(time.monotonic())
            for page, view in views:
                for each, part in self._parts(page, view):
                    self._write_range(each, part, counted=True)

    def read_into(self, page: int, buffer: bytearray | memoryview) -> None:
        """Read whole pages into a buffer; a page that was never written is zero.

        Raises:
            UsageError: Not whole pages, or beyond the end of the region.
            DiskReadFailed: No donor has a page, and the disk does not return it.
            PageDamaged: The disk returns other content than was written.
        """
        target = memoryview(buffer).cast("B")
        with self._lock, self.counters.reading(self._checked(page, len(target))):
            self._poll(time.monotonic())
            self._reads.finish(self._reads.begin(page, target))

    def begin_read(self, page: int, buffer: bytearray | memoryview) -> PendingRead:
        """Request pages without a wait for them; finish_read() waits. Until then they must not be written.

        Raises:
            UsageError: Not whole pages, or beyond the end of the region.
        """
        target = memoryview(buffer).cast("B")
        self._checked(page, len(target))
        with self._lock, self.counters.reading(0):
            self._poll(time.monotonic())
            read = self._reads.begin(page, target)
            self._reads.expect_local(read)
            return read

    def finish_read(self, read: PendingRead) -> None:
        """Wait until the buffer of begin_read() is filled; raises as read_into(). Without effect when it is repeated."""
        if read.finished:
            return
        with self._lock, self.counters.reading(read.pages):
            self._reads.finish(read)

    def receive(self) -> None:
        """Receive what donors have sent; without a wait."""
        with self._lock:
            self._links.poll()

    def fileno(self) -> int:
        """Return a descriptor that is readable when a donor has sent something."""
        return self._links.fileno()

    def read(self, page: int, pages: int) -> bytes:
        """Return whole pages; as read_into()."""
        buffer = bytearray(pages * self.settings.page_bytes)
        self.read_into(page, buffer)
        return bytes(buffer)

    def flush(self, timeout_s: float = 60.0) -> bool:
        """Wait until every page is on the disk; return whether that is so."""
        return self._disk.flush(timeout_s)

    def statistics(self) -> dict[str, Any]:
        """Return the counters, and what is where."""
        with self._lock:
            return {
                **self.counters.as_dict(),
                "slabs": self._table.slabs,
                "mapped_slabs": self._table.mapped_slabs,
                "placed_slabs": self._placements.placed,
                "remote_pages": len(self._table.remote),
                "donors": len(self._table.donors()),
                "donor_slabs": self._table.slabs_by_donor(),
                "queued_pages": self._disk.queued_pages,
                "disk_pages": self._disk.written_pages,
                "disk_failing": self._disk.failing,
            }

    def close(self) -> None:
        """End the connections and delete the region."""
        self._closing.set()
        self._thread.join()
        with self._lock:
            self._links.close()
            self._disk.close()

    def __enter__(self) -> RemotePages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(self, page: int, size: int) -> int:
        pages, rest = divmod(size, self.settings.page_bytes)
        if rest:
            raise UsageError(f"{size} bytes; whole pages of {self.settings.page_bytes} bytes are read and written")
        if page < 0 or page + pages > self.settings.pages:
            raise UsageError(f"pages {page} to {page + pages} of a region of {self.settings.pages} pages")
        return pages

    def _parts(self, page: int, view: memoryview) -> list[tuple[PageRange, memoryview]]:
        """Split pages into requests."""
        size = self.settings.page_bytes
        return [
            (each, view[(each.page - page) * size : (each.page - page + each.pages) * size])
            for each in self._table.ranges(page, len(view) // size, self.settings.request_pages)
        ]

    def _write_range(self, each: PageRange, view: memoryview, counted: bool = False) -> tuple[int, SlabRequest | None]:
        """Queue pages for the disk and send them to their donor; return the queue's number and the request."""
        content = view if isinstance(view.obj, bytes) else memoryview(bytes(view))  # bytes do not change
        number = self._disk.put(each.page, content)
        self._table.remote.clear_range(each.page, each.page + each.pages)
        self._checksums.store(each.page, content)
        self._table.record(each.slab, each.pages, time.monotonic())
        return number, self._requests.write(each, content, counted)

    def _poll(self, now: float, interval_s: float = BUSY_POLL_S) -> None:
        if now - self._polled < interval_s:
            return
        self._polled = now
        self._links.take_connected()
        self._links.poll()
        self._placements.poll(now)

    def _poll_until_closed(self) -> None:
        while not self._closing.wait(POLL_S if self._links.connected else IDLE_POLL_S):
            with self._lock:
                self._poll(time.monotonic(), 0.0)
