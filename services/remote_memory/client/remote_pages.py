"""A region of pages: written to a donor and to the local disk, read from the donor where it has the newest content.

    with RemotePages(settings) as region:
        region.write(0, content)
        region.read(0, pages=1)

A write waits for the donor, and only queues the page for the disk (thesis, section 2.4); a page of a slab that no donor has waits
for the disk. An evicted slab, a lost donor and a damaged answer are the same to a reader: the page comes from the queue or the
disk. A write that raises has changed nothing of the request that failed; requests are of 128 KiB at most and of one slab.
"""

from __future__ import annotations

import threading
import time
import zlib
from array import array
from types import TracebackType
from typing import Any

from tiresias.errors import Unavailable, UsageError
from tiresias.services.remote_memory.client.disk_pages import DiskPages
from tiresias.services.remote_memory.client.donor_link import DonorLink
from tiresias.services.remote_memory.client.donor_links import DonorLinks
from tiresias.services.remote_memory.client.page_counters import PageCounters
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.client.slab_events import SlabEvents
from tiresias.services.remote_memory.client.slab_placements import SlabPlacements
from tiresias.services.remote_memory.client.slab_request import FAILED, PENDING, SlabRequest
from tiresias.services.remote_memory.slabs.slab_table import PageRange, SlabTable
from tiresias.services.wire.channel import Buffer

POLL_S = 0.02  # between two polls of the donors' messages while the region is idle
BUSY_POLL_S = 0.005  # while it is used
IDLE_POLL_S = 0.25  # without a donor
WINDOW = 32  # requests to a donor without an answer; a donor ends a connection that does not read its answers
MOST_PROMOTIONS = 16  # with more of them no page is promoted


class PageDamaged(Unavailable):
    """A page's content on the local disk is not what was written."""


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
        zero = zlib.crc32(bytes(settings.page_bytes))
        self._checksums = array("I", [zero]) * settings.pages
        self._disk = DiskPages(
            settings.disk, settings.pages, settings.page_bytes, settings.queue_pages, settings.disk_timeout_s
        )
        self._links = DonorLinks(settings, SlabEvents(self._table, self.counters))
        self._placements = SlabPlacements(settings, self._table, self._links)
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
        pages = self._checked(page, len(view))
        with self._lock, self.counters.writing(pages):
            self._poll(time.monotonic())
            sent = []
            for each in self._table.ranges(page, pages, self.settings.request_pages):
                at = (each.page - page) * self.settings.page_bytes
                sent.append((each, *self._write_range(each, view[at : at + each.pages * self.settings.page_bytes])))
            self._await([request for _, _, request in sent if request])
            for each, number, request in sent:
                if request is None or request.state == FAILED:
                    self._disk.wait_written(each.page, each.pages, number)
                else:
                    self.counters.written_remote += each.pages

    def read_into(self, page: int, buffer: bytearray | memoryview) -> None:
        """Read whole pages into a buffer; a page that was never written is zero.

        Raises:
            UsageError: Not whole pages, or beyond the end of the region.
            DiskReadFailed: No donor has a page, and the disk does not return it.
            PageDamaged: The disk returns other content than was written.
        """
        target = memoryview(buffer).cast("B")
        pages = self._checked(page, len(target))
        with self._lock, self.counters.reading(pages):
            self._poll(time.monotonic())
            requests: list[SlabRequest] = []
            try:
                self._request(page, pages, target, requests)
            finally:
                self._await(requests)  # no answer may come into the buffer after the return
            for request in requests:
                assert request.target is not None
                if request.state == FAILED or not self._undamaged(request):
                    self._read_local(request.page, request.pages, request.target)
                else:
                    self.counters.read_remote += request.pages

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

    # -- writes -------------------------------------------------------------------------------------------------------------------

    def _write_range(self, each: PageRange, view: memoryview) -> tuple[int, SlabRequest | None]:
        """Queue pages for the disk and send them to their donor; return the queue's number and the request."""
        size = self.settings.page_bytes
        contents = [bytes(view[at : at + size]) for at in range(0, len(view), size)]
        number = self._disk.put(each.page, contents)
        for page, content in enumerate(contents, each.page):
            self._table.remote.clear(page)
            self._checksums[page] = zlib.crc32(content)
        self._table.record(each.slab, each.pages, time.monotonic())
        return number, self._send_pages(each, view)

    def _send_pages(self, each: PageRange, view: memoryview) -> SlabRequest | None:
        mapping = self._table.mapping(each.slab)
        link = self._links.get(mapping.donor) if mapping else None
        if mapping is None or link is None:
            return None
        request = SlabRequest(mapping, each.page, each.pages)
        self._wait_for_window(link)
        self._links.guarded(link, lambda: link.write(request, self._offset(each), view))
        return request

    def _offset(self, each: PageRange) -> int:
        return (each.page - each.slab * self.settings.slab_pages) * self.settings.page_bytes

    # -- reads --------------------------------------------------------------------------------------------------------------------

    def _request(self, page: int, pages: int, target: memoryview, requests: list[SlabRequest]) -> None:
        """Request what donors have, then read the rest."""
        local, size = [], self.settings.page_bytes
        now = time.monotonic()
        for each in self._table.ranges(page, pages, self.settings.request_pages):
            self._table.record(each.slab, each.pages, now)
            for run, remote in self._runs(each):
                part = target[(run.page - page) * size : (run.page - page + run.pages) * size]
                request = self._request_run(run, part) if remote else None
                if request:
                    requests.append(request)
                else:
                    local.append((run, part))
        for run, part in local:
            self._read_local(run.page, run.pages, part)
            self._promote(run, part)

    def _runs(self, each: PageRange) -> list[tuple[PageRange, bool]]:
        """Split pages by whether their donor has their newest content."""
        runs: list[tuple[PageRange, bool]] = []
        for page in range(each.page, each.page + each.pages):
            remote = page in self._table.remote
            if runs and runs[-1][1] == remote:
                last = runs[-1][0]
                runs[-1] = (last._replace(pages=last.pages + 1), remote)
            else:
                runs.append((PageRange(each.slab, page, 1), remote))
        return runs

    def _request_run(self, run: PageRange, part: memoryview) -> SlabRequest | None:
        mapping = self._table.mapping(run.slab)
        link = self._links.get(mapping.donor) if mapping else None
        if mapping is None or link is None:
            return None
        request = SlabRequest(mapping, run.page, run.pages, part)
        self._wait_for_window(link)
        self._links.guarded(link, lambda: link.read(request, self._offset(run)))
        return request

    def _read_local(self, page: int, pages: int, target: memoryview) -> None:
        """Read pages from the queue and the disk."""
        size = self.settings.page_bytes
        for at in range(pages):
            part = target[at * size : (at + 1) * size]
            content = self._disk.queued(page + at)
            if content is not None:
                part[:] = content
                self.counters.read_queue += 1
                continue
            self._disk.read(page + at, part)
            self.counters.read_disk += 1
            if zlib.crc32(part) != self._checksums[page + at]:
                raise PageDamaged(f"{self.settings.disk}: page {page + at} of a region is not what was written")

    def _promote(self, run: PageRange, part: memoryview) -> None:
        """Send pages that were read from the disk to the donor that has their slab, without a wait."""
        mapping = self._table.mapping(run.slab)
        link = self._links.get(mapping.donor) if mapping and self.settings.promote_reads else None
        if link is not None and len(link.requests) <= MOST_PROMOTIONS and self._send_pages(run, part):
            self.counters.promoted += run.pages

    def _undamaged(self, request: SlabRequest) -> bool:
        """Check what a donor has sent; a donor that returns a damaged page is not used for a while."""
        assert request.target is not None
        size = self.settings.page_bytes
        for at in range(request.pages):
            if zlib.crc32(request.target[at * size : (at + 1) * size]) != self._checksums[request.page + at]:
                break
        else:
            return True
        self.counters.damaged += 1
        if link := self._links.get(request.mapping.donor):
            self._links.drop(link, "it returned a damaged page")
        return False

    # -- donors -------------------------------------------------------------------------------------------------------------------

    def _wait_for_window(self, link: DonorLink) -> None:
        while len(link.requests) >= WINDOW and self._links.guarded(link, link.receive):
            pass

    def _await(self, requests: list[SlabRequest]) -> None:
        """Receive until each request is answered or has failed."""
        deadline = time.monotonic() + self.settings.donor_timeout_s
        for request in requests:
            while request.state == PENDING:
                link = self._links.get(request.mapping.donor)
                if link is None:
                    request.state = FAILED
                elif time.monotonic() >= deadline:
                    self._links.drop(link, "no answer in time")
                else:
                    self._links.guarded(link, link.receive)

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
