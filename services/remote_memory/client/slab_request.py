"""A request for pages that a donor has not answered yet."""

from __future__ import annotations

from tiresias.services.remote_memory.slabs.slab_table import SlabMapping

PENDING, ANSWERED, FAILED = "pending", "answered", "failed"


class SlabRequest:
    """Consecutive pages of one slab.

    Attributes:
        mapping: The slab at the donor.
        page: The first page, in the region.
        pages: How many.
        target: Where a read puts them; None for a write.
        state: PENDING, ANSWERED, or FAILED where the donor is lost or has the slab no longer.
        counted: Whether the answer to a write counts its pages as written to a donor: the caller does not wait for it.
    """

    __slots__ = ("counted", "mapping", "page", "pages", "state", "target")

    def __init__(
        self, mapping: SlabMapping, page: int, pages: int, target: memoryview | None = None, counted: bool = False
    ) -> None:
        self.mapping, self.page, self.pages, self.target = mapping, page, pages, target
        self.state, self.counted = PENDING, counted
