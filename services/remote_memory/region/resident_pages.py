"""Which pages of a region are resident, which of them were changed, and which leave next."""

from __future__ import annotations

MOST_READAHEAD = 32  # pages


class ResidentPages:
    """The resident pages, in the order in which they came in.

    Args:
        limit: How many pages may be resident.
        pages: Pages of the region.
    """

    def __init__(self, limit: int, pages: int) -> None:
        self._limit, self._pages = limit, pages
        self._resident: dict[int, bool] = {}  # page -> changed
        self._next = -1
        self._window = 1

    def __contains__(self, page: int) -> bool:
        return page in self._resident

    def __len__(self) -> int:
        return len(self._resident)

    def add(self, page: int, changed: bool) -> None:
        """Note that a page came in."""
        self._resident[page] = changed

    def changed(self, page: int) -> None:
        """Note that a page is changed."""
        self._resident[page] = True

    def is_changed(self, page: int) -> bool:
        """Return whether a page was changed since it came in."""
        return self._resident[page]

    def remove(self, page: int) -> bool:
        """Note that a page has left; return whether it was changed."""
        return self._resident.pop(page)

    def within(self, first: int, count: int) -> list[int]:
        """Return the resident pages of a range; the smaller of both is searched."""
        if count < len(self._resident):
            return [page for page in range(first, first + count) if page in self._resident]
        return [page for page in self._resident if first <= page < first + count]

    def readahead(self, page: int) -> int:
        """Return how many pages come in at a fault: more while the faults are in sequence, never a resident one."""
        self._window = min(2 * self._window, MOST_READAHEAD, max(1, self._limit // 4)) if page == self._next else 1
        count = 1
        while count < self._window and page + count < self._pages and page + count not in self._resident:
            count += 1
        self._next = page + count
        return count

    def leaving(self, coming: int, batch: int) -> list[int]:
        """Return the pages that leave before `coming` pages come in, sorted.

        These are none, or at least `batch` of those that came in first, but no more than a quarter of the limit for the batch.
        """
        excess = len(self._resident) + coming - self._limit
        if excess <= 0:
            return []
        return sorted(
            page for page, _ in zip(self._resident, range(max(excess, min(batch, self._limit // 4))), strict=False)
        )
