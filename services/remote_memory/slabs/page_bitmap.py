"""A bit for each page of a region: whether a donor has its newest content."""

from __future__ import annotations


class PageBitmap:
    """A set of page numbers, one bit each.

    Args:
        pages: Number of pages; all bits are clear at first.
    """

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self._bits = bytearray((pages + 7) // 8)

    def __contains__(self, page: int) -> bool:
        return bool(self._bits[page >> 3] & (1 << (page & 7)))

    def __len__(self) -> int:
        return int.from_bytes(self._bits, "little").bit_count()

    def set(self, page: int) -> None:
        """Set the bit of a page."""
        self._bits[page >> 3] |= 1 << (page & 7)

    def clear(self, page: int) -> None:
        """Clear the bit of a page."""
        self._bits[page >> 3] &= ~(1 << (page & 7)) & 0xFF

    def clear_range(self, start: int, end: int) -> None:
        """Clear the bits from `start` to `end`, `end` excluded."""
        first, last = (start + 7) & ~7, end & ~7  # the whole bytes
        if first >= last:
            first = last = end
        for page in (*range(start, first), *range(last, end)):
            self.clear(page)
        self._bits[first >> 3 : last >> 3] = bytes((last - first) >> 3)
