"""How many pages may be written after a write fault: more while the faults are in sequence. All of them count as changed."""

from __future__ import annotations

from tiresias.services.remote_memory.region.page_runs import Run
from tiresias.services.remote_memory.region.resident_pages import ResidentPages


class WriteStream:
    """The write faults of a region, in ascending or descending order.

    Args:
        resident: The region's pages.
        most: The most pages at one fault.
    """

    def __init__(self, resident: ResidentPages, most: int) -> None:
        self._resident, self._most = resident, most
        self._last: Run = (-1, 0)
        self._window = 1

    def at_fault(self, page: int) -> Run:
        """Return the pages that may be written: this one and resident ones next to it that were not changed."""
        backward = page == self._last[0] - 1
        in_sequence = backward or page == sum(self._last)
        self._window = min(2 * self._window, self._most) if in_sequence else 1
        search = self._resident.clean_run_to if backward else self._resident.clean_run
        count = max(1, search(page, self._window))
        self._last = (page - count + 1 if backward else page, count)
        return self._last
