"""What the messages of donors change in a region's slabs."""

from __future__ import annotations

import time

from tiresias.services.remote_memory.client.donor_link import DonorLink
from tiresias.services.remote_memory.client.page_counters import PageCounters
from tiresias.services.remote_memory.client.slab_request import SlabRequest
from tiresias.services.remote_memory.messages.donor_messages import (
    ACTIVITY_UNIT,
    CheckActivity,
    EvictSlabs,
    ReportActivity,
    SlabsEvicted,
)
from tiresias.services.remote_memory.slabs.slab_table import SlabMapping, SlabTable


class SlabEvents:
    """The events of a region's slabs. Used under the region's lock.

    Args:
        table: The slabs.
        counters: What is counted.
    """

    def __init__(self, table: SlabTable, counters: PageCounters) -> None:
        self._table, self._counters = table, counters

    def lost(self, address: str) -> None:
        """Unmap the slabs of a donor whose connection has ended."""
        self._counters.lost_donors += 1
        self._table.unmap_donor(address)

    def written(self, request: SlabRequest) -> None:
        """Note that a donor has stored pages; they are read there from now on.

        A later write to the same pages may be on its way: it is in the same connection, and a read that is sent now comes after it.
        """
        if self._table.slab_of(request.mapping) is not None:
            self._table.remote.set_range(request.page, request.page + request.pages)
            self._counters.written_remote += request.pages if request.counted else 0

    def refused(self, request: SlabRequest) -> None:
        """Unmap a slab that its donor does not have."""
        slab = self._table.slab_of(request.mapping)
        if slab is not None:
            self._table.unmap(slab)

    def check_activity(self, link: DonorLink, content: CheckActivity) -> None:
        """Report the activity of slabs."""
        now = time.monotonic()
        known = {handle: self._table.slab_of(SlabMapping(link.address, handle)) for handle in content.handles}
        found = {handle: self._table.activity(slab, now) for handle, slab in known.items() if slab is not None}
        activity = tuple(int(value * ACTIVITY_UNIT) for value in found.values())
        link.send(ReportActivity(content.round, tuple(found), activity))

    def evict(self, link: DonorLink, content: EvictSlabs) -> None:
        """Use slabs no longer. Requests that were sent before are answered before: the connection keeps the order."""
        for handle in content.handles:
            slab = self._table.slab_of(SlabMapping(link.address, handle))
            if slab is not None:
                self._table.unmap(slab)
                self._counters.evicted += 1
        link.send(SlabsEvicted(content.handles))
