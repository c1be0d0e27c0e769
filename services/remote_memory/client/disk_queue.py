"""The pages that wait for the disk, as runs that share one buffer. Used under the lock of its owner."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class QueuedRun:
    """Consecutive pages that were queued together.

    Attributes:
        number: Its place in the order of writes.
        page: The first page.
        content: The pages; never changed.
        left: How many of them still wait with this content.
    """

    __slots__ = ("content", "left", "number", "page", "pages")

    def __init__(self, number: int, page: int, content: memoryview, page_bytes: int) -> None:
        self.number, self.page, self.content = number, page, content
        self.left = self.pages = len(content) // page_bytes


class QueuedPart(NamedTuple):
    """Consecutive pages of one run."""

    run: QueuedRun
    page: int
    pages: int


class DiskQueue:
    """The newest content of the pages that wait; the oldest pages come first.

    Args:
        page_bytes: Bytes of a page.
        most_pages: Pages that may wait. Buffers of runs that were partly replaced count as well, up to twice as many pages.
    """

    def __init__(self, page_bytes: int, most_pages: int) -> None:
        self._page_bytes, self._most_pages = page_bytes, most_pages
        self._runs: dict[int, QueuedRun] = {}
        self._number = self._held_pages = 0

    def __len__(self) -> int:
        return len(self._runs)

    def has_place(self, page: int, pages: int) -> bool:
        """Return whether these pages may be added. O(pages)."""
        free = self._most_pages - len(self._runs)
        return pages <= free or sum(at not in self._runs for at in range(page, page + pages)) <= free

    def add(self, page: int, content: memoryview) -> int:
        """Add consecutive pages and return the run's number. O(pages)."""
        self._number += 1
        run = QueuedRun(self._number, page, content, self._page_bytes)
        pages = range(page, page + run.pages)
        if not self._runs.keys().isdisjoint(pages):
            for at in filter(self._runs.__contains__, pages):
                self._left(self._runs[at])
        self._runs.update(dict.fromkeys(pages, run))
        self._held_pages += run.pages
        if self._held_pages > 2 * self._most_pages:
            self._copy_parts()
        return self._number

    def find(self, page: int) -> memoryview | None:
        """Return the content of a page that waits."""
        run = self._runs.get(page)
        return None if run is None else self.content(QueuedPart(run, page, 1))

    def waits(self, pages: range, number: int) -> bool:
        """Return whether one of the pages waits with the content of this number or an older one. O(pages)."""
        return any((run := self._runs.get(page)) is not None and run.number <= number for page in pages)

    def next_parts(self, most: int) -> list[QueuedPart]:
        """Return the page that waits longest and those that follow it, at most `most`."""
        page = next(iter(self._runs))
        parts: list[QueuedPart] = []
        while most and (run := self._runs.get(page)) is not None:
            end, limit = page + 1, min(page + most, run.page + run.pages)
            if run.left == run.pages:  # no page of it was replaced or written
                end = limit
            while end < limit and self._runs.get(end) is run:
                end += 1
            parts.append(QueuedPart(run, page, end - page))
            most, page = most - (end - page), end
        return parts

    def content(self, part: QueuedPart) -> memoryview:
        """Return the pages of a part."""
        start = (part.page - part.run.page) * self._page_bytes
        return part.run.content[start : start + part.pages * self._page_bytes]

    def remove(self, part: QueuedPart) -> None:
        """Remove the pages that still wait with this content."""
        pages = range(part.page, part.page + part.pages)
        if part.run.left == part.run.pages:  # no page of it was replaced
            deque(map(self._runs.pop, pages), maxlen=0)
            self._left(part.run, part.pages)
            return
        for page in pages:
            if self._runs.get(page) is part.run:
                del self._runs[page]
                self._left(part.run)

    def _left(self, run: QueuedRun, pages: int = 1) -> None:
        run.left -= pages
        if not run.left:
            self._held_pages -= run.pages

    def _copy_parts(self) -> None:
        """Give the pages of runs that were partly replaced a buffer of their own."""
        for page, run in list(self._runs.items()):
            if run.left < run.pages:
                content = memoryview(bytes(self.content(QueuedPart(run, page, 1))))
                self._runs[page] = QueuedRun(run.number, page, content, self._page_bytes)
        self._held_pages = len(self._runs)
