"""The pages on local disk, written by a thread; what is not written yet is read from the queue.

The file has no name, so that it ends with the process. A page that the disk does not take stays in the queue, which is bounded: a
write that finds no place in it fails and changes nothing.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import Unavailable
from tiresias.protocol.job_log import log_line

RUN_PAGES = 64  # of one system call
RETRY_S = 0.1  # until a write that failed is tried again


class LocalDiskFull(Unavailable):
    """The queue of the disk is full, and the disk takes nothing: the page keeps its old content."""


class DiskReadFailed(Unavailable):
    """The disk does not return a page."""


class _Queued(NamedTuple):
    number: int
    content: bytes


class DiskPages:
    """The file of a region.

    Args:
        folder: Where it is.
        pages: Pages of the region; one that was never written is zero.
        page_bytes: Bytes of a page.
        queue_pages: Pages that may wait.
        timeout_s: Seconds until a write without a place fails.

    Raises:
        OSError: No file can be created there.
    """

    def __init__(self, folder: Path, pages: int, page_bytes: int, queue_pages: int, timeout_s: float) -> None:
        self._page_bytes, self._queue_pages, self._timeout_s = page_bytes, queue_pages, timeout_s
        self._file = _nameless_file(folder)
        os.ftruncate(self._file, pages * page_bytes)
        self._folder = folder
        self._queue: dict[int, _Queued] = {}
        self._number = 0
        self._changed = threading.Condition()
        self._failing = False
        self._stopping = False
        self.written_pages = 0
        self._thread = threading.Thread(target=self._write_all, name="remote memory disk", daemon=True)
        self._thread.start()

    @property
    def failing(self) -> bool:
        """Whether the last write failed."""
        return self._failing

    @property
    def queued_pages(self) -> int:
        """How many pages wait."""
        return len(self._queue)

    def put(self, page: int, contents: Sequence[bytes]) -> int:
        """Queue consecutive pages, all or none, and return a number for wait_written().

        Raises:
            LocalDiskFull: There was no place in time.
        """
        with self._changed:
            numbers = range(page, page + len(contents))
            if not self._changed.wait_for(lambda: self._has_place(numbers), self._timeout_s):
                raise LocalDiskFull(f"{self._folder}: the disk takes no page: free space there, or use another folder")
            self._number += 1
            for at, content in zip(numbers, contents, strict=True):
                self._queue[at] = _Queued(self._number, content)
            self._changed.notify_all()
            return self._number

    def _has_place(self, pages: range) -> bool:
        return len(self._queue) + sum(page not in self._queue for page in pages) <= self._queue_pages

    def wait_written(self, page: int, pages: int, number: int) -> None:
        """Wait until pages that `put` queued are on the disk, or the disk fails: they are then read from the queue."""
        with self._changed:
            self._changed.wait_for(lambda: self._failing or not self._waits(range(page, page + pages), number))

    def _waits(self, pages: range, number: int) -> bool:
        return any((found := self._queue.get(page)) is not None and found.number <= number for page in pages)

    def queued(self, page: int) -> bytes | None:
        """Return the content of a page that waits; None where none waits."""
        found = self._queue.get(page)
        return found.content if found else None

    def read(self, page: int, into: memoryview) -> None:
        """Read consecutive pages of which none waits.

        Raises:
            DiskReadFailed: The disk does not return them.
        """
        try:
            count = os.preadv(self._file, [into], page * self._page_bytes)
        except OSError as error:
            raise DiskReadFailed(f"{self._folder}: page {page} of a region: {error.strerror}") from error
        if count != len(into):
            raise DiskReadFailed(f"{self._folder}: page {page} of a region: {count} bytes in place of {len(into)}")

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing waits; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue, timeout_s)

    def close(self) -> None:
        """End the thread and the file."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        os.close(self._file)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._queue)
                if self._stopping:
                    return
                run = self._next_run()
            self._write_run(run)

    def _next_run(self) -> list[tuple[int, _Queued]]:
        """Return the page that waits longest, and those that follow it in the region."""
        page = next(iter(self._queue))
        run: list[tuple[int, _Queued]] = []
        while len(run) < RUN_PAGES and (found := self._queue.get(page)) is not None:
            run.append((page, found))
            page += 1
        return run

    def _write_run(self, run: list[tuple[int, _Queued]]) -> None:
        try:
            count = os.pwritev(self._file, [each.content for _, each in run], run[0][0] * self._page_bytes)
        except OSError as error:
            self._failed(error.strerror or str(error))
            return
        whole = count // self._page_bytes
        with self._changed:
            for page, each in run[:whole]:
                if self._queue[page] is each:
                    del self._queue[page]
            self.written_pages += whole
            self._failing = self._failing and not whole
            self._changed.notify_all()
        if not whole:
            self._failed("no space left")

    def _failed(self, reason: str) -> None:
        if not self._failing:
            log_line(f"remote memory: {self._folder}: {reason}; pages wait in memory")
        with self._changed:
            self._failing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopping, RETRY_S)


def _nameless_file(folder: Path) -> int:
    with suppress(OSError):
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    descriptor, name = tempfile.mkstemp(prefix=".tiresias-region-", dir=folder)  # a file system without O_TMPFILE
    Path(name).unlink()
    return descriptor
