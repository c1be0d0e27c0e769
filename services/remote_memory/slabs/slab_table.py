"""The slabs of a region: which of them a donor holds, which pages are there, and how active each slab is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tiresias.services.remote_memory.slabs.page_bitmap import PageBitmap
from tiresias.services.remote_memory.slabs.slab_activity import ALPHA, SlabActivity

HOT_SLAB = 20.0  # page requests per second (thesis, section 2.4.1)
FORGOTTEN = 0.01  # page requests per second: an unmapped slab below it has no average of its own


class SlabMapping(NamedTuple):
    """Where a slab is.

    Attributes:
        donor: The donor's address.
        handle: The donor's number of the slab; a donor uses a number once.
    """

    donor: str
    handle: int


class PageRange(NamedTuple):
    """Consecutive pages of one slab.

    Attributes:
        slab: The slab's number in the region.
        page: The first page's number in the region.
        pages: How many.
    """

    slab: int
    page: int
    pages: int


class SlabTable:
    """The mapping of a region's pages to slabs of donors.

    Args:
        pages: Pages of the region.
        slab_pages: Pages of a slab; the last slab may have fewer.
        alpha: The weight of the newest second in the activity.

    Attributes:
        remote: The pages whose newest content a donor has.
    """

    def __init__(self, pages: int, slab_pages: int, alpha: float = ALPHA) -> None:
        if pages < 1 or slab_pages < 1:
            raise ValueError(f"a region of {pages} pages with slabs of {slab_pages} pages; both are at least 1")
        self.pages, self.slab_pages = pages, slab_pages
        self.slabs = -(-pages // slab_pages)
        self.remote = PageBitmap(pages)
        self._alpha = alpha
        self._mapped: dict[int, SlabMapping] = {}
        self._slab_of: dict[SlabMapping, int] = {}
        self._activity: dict[int, SlabActivity] = {}

    def ranges(self, page: int, pages: int, most: int) -> Iterator[PageRange]:
        """Split consecutive pages at the borders of slabs, and after `most` pages."""
        end = page + pages
        while page < end:
            slab = page // self.slab_pages
            count = min(end - page, most, (slab + 1) * self.slab_pages - page)
            yield PageRange(slab, page, count)
            page += count

    def mapping(self, slab: int) -> SlabMapping | None:
        """Return where a slab is mapped; None where it is not."""
        return self._mapped.get(slab)

    def slab_of(self, mapping: SlabMapping) -> int | None:
        """Return the slab of a donor's number; None where it is not mapped any more."""
        return self._slab_of.get(mapping)

    def donors(self) -> set[str]:
        """Return the donors that hold a slab of this region."""
        return {mapping.donor for mapping in self._mapped.values()}

    def slabs_by_donor(self) -> dict[str, int]:
        """Return how many slabs each donor holds."""
        return dict(Counter(mapping.donor for mapping in self._mapped.values()))

    def mapped_at(self, donor: str) -> list[int]:
        """Return the slabs at a donor."""
        return [slab for slab, mapping in self._mapped.items() if mapping.donor == donor]

    @property
    def mapped_slabs(self) -> int:
        """The number of mapped slabs."""
        return len(self._mapped)

    def map(self, slab: int, mapping: SlabMapping) -> None:
        """Map a slab; no page of it is remote yet."""
        self.unmap(slab)
        self._mapped[slab] = mapping
        self._slab_of[mapping] = slab

    def unmap(self, slab: int) -> None:
        """Unmap a slab and clear the bits of its pages; without effect on an unmapped one."""
        mapping = self._mapped.pop(slab, None)
        if mapping is None:
            return
        del self._slab_of[mapping]
        start = slab * self.slab_pages
        self.remote.clear_range(start, min(start + self.slab_pages, self.pages))

    def unmap_donor(self, donor: str) -> list[int]:
        """Unmap every slab at a donor and return them."""
        slabs = self.mapped_at(donor)
        for slab in slabs:
            self.unmap(slab)
        return slabs

    def record(self, slab: int, requests: int, now: float) -> None:
        """Count page requests of a slab."""
        activity = self._activity.get(slab)
        if activity is None:
            activity = self._activity[slab] = SlabActivity(now, self._alpha)
        activity.record(requests, now)

    def activity(self, slab: int, now: float) -> float:
        """Return the page requests of a slab per second."""
        found = self._activity.get(slab)
        return found.at(now) if found else 0.0

    def hot(self, now: float, threshold: float = HOT_SLAB) -> list[int]:
        """Return the unmapped slabs at or above the threshold, sorted in descending order of activity.

        Averages of unmapped slabs that have decayed are dropped.
        """
        found = {slab: each.at(now) for slab, each in self._activity.items() if slab not in self._mapped}
        for slab in [
            slab for slab, value in found.items() if value < FORGOTTEN and not self._activity[slab].counts(now)
        ]:
            del self._activity[slab]
        return sorted((slab for slab, value in found.items() if value >= threshold), key=lambda slab: -found[slab])
