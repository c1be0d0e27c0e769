"""The checksums of a region's pages: CRC-32 of the newest content of each."""

from __future__ import annotations

from array import array

from tiresias.protocol import crc


class PageChecksums:
    """The checksums, one pass over each run of pages.

    Args:
        pages: Pages of the region; they are zero at first.
        page_bytes: Bytes of a page.
    """

    def __init__(self, pages: int, page_bytes: int) -> None:
        self._page_bytes, self._crc32 = page_bytes, crc.fastest()
        self._sums = array("I", [self._crc32(bytes(page_bytes), 0)]) * pages

    def store(self, page: int, content: memoryview) -> None:
        """Store the checksums of consecutive pages."""
        found = self._of(content)
        self._sums[page : page + len(found)] = found

    def agree(self, page: int, content: memoryview) -> bool:
        """Return whether consecutive pages are what was stored."""
        found = self._of(content)
        return found == self._sums[page : page + len(found)]

    def _of(self, content: memoryview) -> array[int]:
        size, crc32 = self._page_bytes, self._crc32
        return array("I", [crc32(content[at : at + size], 0) for at in range(0, len(content), size)])
