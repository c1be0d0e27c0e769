"""The pages on local disk, written by a thread; what is not written yet is read from the queue.

The file has no name, so that it ends with the process. A page that the disk does not take stays in the queue, which is bounded: a
write that finds no place in it fails and changes nothing.
"""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from tiresias.errors import Unavailable
from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.client.disk_queue import DiskQueue, QueuedPart

RUN_PAGES = 256  # of one system call
RETRY_S = 0.1  # until a write that failed is tried again


class LocalDiskFull(Unavailable):
    """The queue of the disk is full, and the disk takes nothing: the page keeps its old content."""


class DiskReadFailed(Unavailable):
    """The disk does not return a page."""


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
        self._page_bytes, self._timeout_s = page_bytes, timeout_s
        self._file = _nameless_file(folder)
        os.ftruncate(self._file, pages * page_bytes)
        self._folder = folder
        self._queue = DiskQueue(page_bytes, queue_pages)
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

    def put(self, page: int, content: memoryview) -> int:
        """Queue consecutive pages, all or none, and return a number for wait_written(). The content must not change any more.

        Raises:
            LocalDiskFull: There was no place in time.
        """
        pages = len(content) // self._page_bytes
        with self._changed:
            if not self._changed.wait_for(lambda: self._queue.has_place(page, pages), self._timeout_s):
                raise LocalDiskFull(f"{self._folder}: the disk takes no page: free space there, or use another folder")
            number = self._queue.add(page, content)
            self._changed.notify_all()
            return number

    def wait_written(self, page: int, pages: int, number: int) -> None:
        """Wait until pages that `put` queued are on the disk, or the disk fails: they are then read from the queue."""
        with self._changed:
            self._changed.wait_for(lambda: self._failing or not self._queue.waits(range(page, page + pages), number))

    def read_newest(self, page: int, into: memoryview) -> int:
        """Read consecutive pages from the queue and the disk; return how many of them waited.

        Raises:
            DiskReadFailed: The disk does not return them.
        """
        size = self._page_bytes
        with self._changed:
            queued = [self._queue.find(page + at) for at in range(len(into) // size)]
        start = 0
        for at, content in enumerate([*queued, into]):  # the last one ends the pages on the disk
            if content is None:
                continue
            if at > start:
                self.read(page + start, into[start * size : at * size])
            if at < len(queued):
                into[at * size : (at + 1) * size] = content
            start = at + 1
        return len(queued) - queued.count(None)

    def expect(self, page: int, pages: int) -> None:
        """Let the kernel read pages from the disk ahead."""
        with suppress(OSError):
            os.posix_fadvise(self._file, page * self._page_bytes, pages * self._page_bytes, os.POSIX_FADV_WILLNEED)

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
            return self._changed.wait_for(lambda: not len(self._queue), timeout_s)

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
                self._changed.wait_for(lambda: self._stopping or len(self._queue))
                if self._stopping:
                    return
                parts = self._queue.next_parts(RUN_PAGES)
            self._write_parts(parts)

    def _write_parts(self, parts: list[QueuedPart]) -> None:
        contents = [self._queue.content(part) for part in parts]
        try:
            count = os.pwritev(self._file, contents, parts[0].page * self._page_bytes)
        except OSError as error:
            self._failed(error.strerror or str(error))
            return
        whole = left = count // self._page_bytes
        with self._changed:
            for part in parts:
                self._queue.remove(part._replace(pages=min(left, part.pages)))
                left = max(0, left - part.pages)
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
