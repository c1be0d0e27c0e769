"""The pages of a region that leave: stored where they were changed, and removed from the memory of the program."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from tiresias.services.remote_memory.client.remote_pages import RemotePages
from tiresias.services.remote_memory.region.page_accesses import PageAccesses
from tiresias.services.remote_memory.region.page_buffers import PageBuffer
from tiresias.services.remote_memory.region.page_runs import Run
from tiresias.services.remote_memory.region.resident_pages import MOST_OBSERVED, ResidentPages
from tiresias.services.remote_memory.region.userfault import protect, punch_hole


class MappedRegion(NamedTuple):
    """The memory of a region.

    Attributes:
        userfault: Its userfaultfd.
        memory: Its memory file.
        address: Where the program has mapped it.
        page_bytes: Bytes of a page.
    """

    userfault: int
    memory: int
    address: int
    page_bytes: int

    def protect(self, page: int, count: int, on: bool) -> None:
        """Protect pages against writes, or allow them and wake the threads that wait."""
        size = self.page_bytes
        protect(self.userfault, self.address + page * size, count * size, on)

    def remove(self, page: int, count: int) -> None:
        """Remove pages: they are missing from now on."""
        punch_hole(self.memory, page * self.page_bytes, count * self.page_bytes)

    def unmap(self, page: int, content: memoryview, changed: bool, clean: bool) -> None:
        """Unmap pages that stay here: the kernel maps each at its next access.

        Until they are in the memory file again, a thread that accesses one waits, and its fault is resolved afterwards: so no write
        is lost. Clean pages are protected again before they can be mapped.

        Args:
            page: The first one.
            content: A buffer of their size.
            changed: Whether one of them was changed.
            clean: Whether one was not.
        """
        count, offset = len(content) // self.page_bytes, page * self.page_bytes
        if changed:
            self.protect(page, count, on=True)
        self._check(os.preadv(self.memory, [content], offset), content)
        self.remove(page, count)
        if clean:
            self.protect(page, count, on=True)
        self._check(os.pwritev(self.memory, [content], offset), content)
        if not clean:  # the protection of a removed page remains
            self.protect(page, count, on=False)

    def _check(self, moved: int, content: memoryview) -> None:
        if moved != len(content):  # the program must not go on
            raise OSError(f"{moved} bytes of {len(content)} of the memory of a region were transferred")


def new_counts() -> dict[str, float]:
    """Return the counters of a handler."""
    names = (
        "faults",
        "write_faults",
        "pages_in",
        "ahead_pages",
        "zero_pages",
        "observed_pages",
        "pages_out",
        "clean_pages",
    )
    return {**dict.fromkeys(names, 0), "in_s": 0.0, "out_s": 0.0}


class LeavingPages:
    """The way out of a region.

    Args:
        region: Its memory.
        pages: Where pages are that are not resident.
        resident: The resident ones.
        stored: A mark for each page that has left once.
        accesses: What the program accesses; None where the kernel does not report it.
        counts: What is counted.
    """

    def __init__(
        self,
        region: MappedRegion,
        pages: RemotePages,
        resident: ResidentPages,
        stored: bytearray,
        accesses: PageAccesses | None,
        counts: dict[str, float],
    ) -> None:
        self._region, self._pages, self._resident, self._stored = region, pages, resident, stored
        self._accesses, self._counts = accesses, counts
        self._buffer = PageBuffer(MOST_OBSERVED * region.page_bytes)

    def send_out(self, pages: int) -> None:
        """Store changed pages and remove them, and others."""
        started = time.perf_counter()
        if self._accesses:
            self._observe()
        runs = self._resident.leaving(pages, self._accesses.of if self._accesses else None)
        self._store([part for run in runs for part in self._resident.changed_runs(*run)])
        for run in runs:
            self._region.remove(*run)
            self._resident.remove(*run)
        self._counts["clean_pages"] += sum(count for _, count in runs)
        self._counts["out_s"] += time.perf_counter() - started

    def _observe(self) -> None:
        """Unmap the pages whose accesses are observed from now on."""
        for page, count in self._resident.begin_observation():
            changed = sum(length for _, length in self._resident.changed_runs(page, count))
            content = self._buffer.view[: count * self._region.page_bytes]
            self._region.unmap(page, content, changed=changed > 0, clean=changed < count)
            self._counts["observed_pages"] += count

    def _store(self, runs: list[Run]) -> None:
        """Queue changed pages for the donors and the disk."""
        size, contents = self._region.page_bytes, []
        for page, count in runs:
            self._region.protect(page, count, on=True)
            contents.append((page, os.pread(self._region.memory, count * size, page * size)))
        self._pages.queue_writes(contents)
        for page, count in runs:
            self._stored[page : page + count] = b"\1" * count
            self._counts["pages_out"] += count
            self._counts["clean_pages"] -= count
