"""Reads of a region: begun by requests to donors, finished by their answers, the queue and the disk."""

from __future__ import annotations

import time

from tiresias.errors import Unavailable
from tiresias.services.remote_memory.client.disk_pages import DiskPages
from tiresias.services.remote_memory.client.donor_requests import DonorRequests
from tiresias.services.remote_memory.client.page_checksums import PageChecksums
from tiresias.services.remote_memory.client.page_counters import PageCounters
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.client.slab_request import FAILED, PENDING, SlabRequest
from tiresias.services.remote_memory.slabs.slab_table import PageRange, SlabTable

MOST_PROMOTIONS = 8  # requests in flight; with more of them no page is promoted


class PageDamaged(Unavailable):
    """A page's content on the local disk is not what was written."""


class PendingRead:
    """Pages that are on their way into a buffer. They must not be written, nor the buffer be used, until the read is finished.

    Attributes:
        requests: What donors were asked for.
        local: What is read from the queue or the disk at the end.
        finished: Whether the buffer is filled.
    """

    __slots__ = ("finished", "local", "pages", "requests")

    def __init__(self, pages: int) -> None:
        self.pages, self.finished = pages, False
        self.requests: list[SlabRequest] = []
        self.local: list[tuple[PageRange, memoryview]] = []

    @property
    def answered(self) -> bool:
        """Whether no donor's answer is missing."""
        return all(request.state != PENDING for request in self.requests)


class PageReads:
    """The reads of a region. Used under the region's lock.

    Args:
        settings: The region's.
        table: Its slabs.
        requests: Requests to its donors.
        disk: Its pages on disk.
        checksums: Its checksums.
        counters: What is counted.
    """

    def __init__(
        self,
        settings: RegionSettings,
        table: SlabTable,
        requests: DonorRequests,
        disk: DiskPages,
        checksums: PageChecksums,
        counters: PageCounters,
    ) -> None:
        self._settings, self._table, self._requests, self._disk = settings, table, requests, disk
        self._checksums, self._counters = checksums, counters

    def begin(self, page: int, target: memoryview) -> PendingRead:
        """Request what donors have."""
        size, now = self._settings.page_bytes, time.monotonic()
        pages = len(target) // size
        read = PendingRead(pages)
        for each in self._table.ranges(page, pages, self._settings.request_pages):
            self._table.record(each.slab, each.pages, now)
            at, end = each.page, each.page + each.pages
            while at < end:
                remote, run_end = self._table.remote.run(at, end)
                part = target[(at - page) * size : (run_end - page) * size]
                self._begin_run(read, PageRange(each.slab, at, run_end - at), part, remote)
                at = run_end
        return read

    def expect_local(self, read: PendingRead) -> None:
        """Let the kernel read ahead what the disk has."""
        for run, _ in read.local:
            self._disk.expect(run.page, run.pages)

    def finish(self, read: PendingRead) -> None:
        """Fill the rest of the buffer.

        Raises:
            DiskReadFailed: No donor has a page, and the disk does not return it.
            PageDamaged: The disk returns other content than was written.
        """
        try:
            for run, part in read.local:
                self._read_local(run.page, part)
                self._promote(run, part)
        finally:
            self._requests.wait(read.requests)  # no answer may come into the buffer after the return
        for request in read.requests:
            assert request.target is not None
            if request.state == FAILED or not self._undamaged(request):
                self._read_local(request.page, request.target)
            else:
                self._counters.read_remote += request.pages
        read.finished = True

    def _begin_run(self, read: PendingRead, run: PageRange, part: memoryview, remote: bool) -> None:
        request = self._requests.read(run, part) if remote else None
        if request:
            read.requests.append(request)
        else:
            read.local.append((run, part))

    def _read_local(self, page: int, target: memoryview) -> None:
        """Read pages from the queue and the disk."""
        queued = self._disk.read_newest(page, target)
        self._counters.read_queue += queued
        self._counters.read_disk += len(target) // self._settings.page_bytes - queued
        if not self._checksums.agree(page, target):
            pages = len(target) // self._settings.page_bytes
            text = f"{self._settings.disk}: one of the pages {page} to {page + pages - 1} of a region"
            raise PageDamaged(f"{text} is not what was written")

    def _promote(self, run: PageRange, part: memoryview) -> None:
        """Send pages that were read from the disk to the donor that has their slab, without a wait."""
        if self._settings.promote_reads and self._requests.in_flight(run.slab) <= MOST_PROMOTIONS:
            self._counters.promoted += run.pages if self._requests.write(run, part) else 0

    def _undamaged(self, request: SlabRequest) -> bool:
        """Check what a donor has sent; a donor that returns a damaged page is not used for a while."""
        assert request.target is not None
        if self._checksums.agree(request.page, request.target):
            return True
        self._counters.damaged += 1
        self._requests.drop_donor(request, "it returned a damaged page")
        return False
