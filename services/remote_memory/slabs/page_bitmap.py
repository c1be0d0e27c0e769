"""A mark for each page of a region: whether a donor has its newest content."""

from __future__ import annotations


class PageBitmap:
    """A set of page numbers, one byte each, so that runs of pages are set and found by operations on whole ranges.

    Args:
        pages: Number of pages; none is marked at first.
    """

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self._marks = bytearray(pages)

    def __contains__(self, page: int) -> bool:
        return bool(self._marks[page])

    def __len__(self) -> int:
        return self._marks.count(1)

    def set_range(self, start: int, end: int) -> None:
        """Mark the pages from `start` to `end`, `end` excluded."""
        self._marks[start:end] = b"\1" * (end - start)

    def clear_range(self, start: int, end: int) -> None:
        """Clear the marks from `start` to `end`, `end` excluded."""
        self._marks[start:end] = bytes(end - start)

    def run(self, start: int, end: int) -> tuple[bool, int]:
        """Return whether page `start` is marked, and the end of the pages before `end` that are the same. O(length of the run)."""
        marked = bool(self._marks[start])
        other = self._marks.find(0 if marked else 1, start, end)
        return marked, end if other == -1 else other
