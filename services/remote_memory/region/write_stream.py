"""How many pages may be written after a write fault: more while the faults are in sequence. All of them count as changed."""

from __future__ import annotations

from tiresias.services.remote_memory.region.resident_pages import ResidentPages


class WriteStream:
    """The write faults of a region.

    Args:
        resident: The region's pages.
        most: The most pages at one fault.
    """

    def __init__(self, resident: ResidentPages, most: int) -> None:
        self._resident, self._most = resident, most
        self._next, self._window = -1, 1

    def at_fault(self, page: int) -> int:
        """Return how many pages from this one on are allowed: resident ones that were not changed, at least 1."""
        self._window = min(2 * self._window, self._most) if page == self._next else 1
        count = max(1, self._resident.clean_run(page, self._window))
        self._next = page + count
        return count
