"""What a region has done, for its owner: pages by source, and the time of reads and writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass


@dataclass
class PageCounters:
    """The counters.

    Attributes:
        written: Pages written.
        written_remote: Of these, pages that a donor had stored when the write returned.
        read: Pages read.
        read_remote: Of these, those from donors.
        read_queue: Those that waited for the disk.
        read_disk: Those from the disk.
        promoted: Pages read from the disk and sent to a donor.
        damaged: Requests in which a donor returned other content than was written.
        evicted: Slabs that donors have evicted.
        lost_donors: Connections that have ended.
        write_s: Seconds in writes.
        read_s: Seconds in reads.
    """

    written: int = 0
    written_remote: int = 0
    read: int = 0
    read_remote: int = 0
    read_queue: int = 0
    read_disk: int = 0
    promoted: int = 0
    damaged: int = 0
    evicted: int = 0
    lost_donors: int = 0
    write_s: float = 0.0
    read_s: float = 0.0

    @contextmanager
    def writing(self, pages: int) -> Iterator[None]:
        """Count a write and its time."""
        start = time.perf_counter()
        try:
            yield
            self.written += pages
        finally:
            self.write_s += time.perf_counter() - start

    @contextmanager
    def reading(self, pages: int) -> Iterator[None]:
        """Count a read and its time."""
        start = time.perf_counter()
        try:
            yield
            self.read += pages
        finally:
            self.read_s += time.perf_counter() - start

    def as_dict(self) -> dict[str, int | float]:
        """Return the counters by name."""
        return asdict(self)
