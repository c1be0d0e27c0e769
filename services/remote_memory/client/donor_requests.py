"""Requests for pages to the donors that have their slabs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tiresias.services.remote_memory.client.donor_link import DonorLink
from tiresias.services.remote_memory.client.donor_links import DonorLinks
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.client.slab_request import FAILED, PENDING, SlabRequest
from tiresias.services.remote_memory.slabs.slab_table import PageRange, SlabMapping, SlabTable

WINDOW = 14  # full requests to a donor without an answer; it ends a connection with 8 MiB of answers that are not read
MOST_IN_FLIGHT = 128  # requests of any size


class DonorRequests:
    """The requests of a region. Used under the region's lock.

    Args:
        settings: The region's.
        table: Its slabs.
        links: Its donors.
    """

    def __init__(self, settings: RegionSettings, table: SlabTable, links: DonorLinks) -> None:
        self._settings, self._table, self._links = settings, table, links
        self._together = False

    def write(self, each: PageRange, view: memoryview, counted: bool = False) -> SlabRequest | None:
        """Send pages; return the request, None where no donor has the slab."""
        found = self._donor(each.slab)
        if found is None:
            return None
        mapping, link = found
        request = SlabRequest(mapping, each.page, each.pages, counted=counted)
        self._links.guarded(link, lambda: link.write(request, self._offset(each), view, held=self._together))
        return request

    def read(self, each: PageRange, into: memoryview) -> SlabRequest | None:
        """Request pages; return the request, None where no donor has the slab."""
        found = self._donor(each.slab)
        if found is None:
            return None
        mapping, link = found
        request = SlabRequest(mapping, each.page, each.pages, into)
        self._links.guarded(link, lambda: link.read(request, self._offset(each)))
        return request

    @contextmanager
    def sent_together(self) -> Iterator[None]:
        """Send what is written to one donor by few system calls, at the end: each one may wake the donor."""
        self._together = True
        try:
            yield
        finally:
            self._together = False
            for link in self._links.all():
                self._links.guarded(link, link.flush)

    def in_flight(self, slab: int) -> int:
        """Return how many requests the donor of a slab has not answered."""
        mapping = self._table.mapping(slab)
        link = self._links.get(mapping.donor) if mapping else None
        return len(link.requests) if link else 0

    def wait(self, requests: Iterable[SlabRequest]) -> None:
        """Receive until each request is answered or has failed."""
        deadline = time.monotonic() + self._settings.donor_timeout_s
        for request in requests:
            while request.state == PENDING:
                link = self._links.get(request.mapping.donor)
                if link is None:
                    request.state = FAILED
                elif time.monotonic() >= deadline:
                    self._links.drop(link, "no answer in time")
                else:
                    self._links.guarded(link, link.receive)

    def drop_donor(self, request: SlabRequest, reason: str) -> None:
        """Do not use the donor of a request for a while."""
        if link := self._links.get(request.mapping.donor):
            self._links.drop(link, reason)

    def _donor(self, slab: int) -> tuple[SlabMapping, DonorLink] | None:
        """Return where a slab is, as soon as its donor takes a further request."""
        mapping = self._table.mapping(slab)
        link = self._links.get(mapping.donor) if mapping else None
        if mapping is None or link is None:
            return None
        while self._is_full(link) and self._links.guarded(link, link.flush) and self._links.guarded(link, link.receive):
            pass
        return (mapping, link) if self._table.mapping(slab) == mapping else None  # evicted or lost in the meantime

    def _is_full(self, link: DonorLink) -> bool:
        return (
            len(link.requests) >= MOST_IN_FLIGHT or link.pages_in_flight > (WINDOW - 1) * self._settings.request_pages
        )

    def _offset(self, each: PageRange) -> int:
        return (each.page - each.slab * self._settings.slab_pages) * self._settings.page_bytes
