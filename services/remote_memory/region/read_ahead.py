"""What is on its way before the program needs it: requests to donors whose answers come while the program computes."""

from __future__ import annotations

from typing import NamedTuple

from tiresias.services.remote_memory.client.page_reads import PendingRead
from tiresias.services.remote_memory.client.remote_pages import RemotePages
from tiresias.services.remote_memory.region.page_buffers import PageBuffer, PageBuffers
from tiresias.services.remote_memory.region.page_runs import Run
from tiresias.services.remote_memory.region.read_streams import ReadStream, ReadStreams
from tiresias.services.remote_memory.region.resident_pages import ResidentPages

BUFFERS = 16


class _Coming(NamedTuple):
    read: PendingRead
    buffer: PageBuffer


class ReadAhead:
    """The runs on their way; each comes in as a whole, or is dropped as a whole.

    Args:
        pages: Where pages are.
        resident: The region's pages.
        streams: Its streams.
        most_window: The most pages of a run.
    """

    def __init__(self, pages: RemotePages, resident: ResidentPages, streams: ReadStreams, most_window: int) -> None:
        self._pages, self._resident, self._streams = pages, resident, streams
        self._size = pages.settings.page_bytes
        self._buffers = PageBuffers(most_window * self._size, BUFFERS)
        self._coming: dict[Run, _Coming] = {}
        self._dropped: list[_Coming] = []
        self.dropped_pages = 0

    def begin(self, stored: bytearray) -> bool:
        """Request the next run of one stream; return whether one was requested. Pages that never left are not on their way.

        Args:
            stored: A mark for each page that has left once.
        """
        for stream in self._streams.followed():
            run = self._streams.next_run(stream)
            if run is None or stored.find(1, run[0], sum(run)) == -1 or run[1] > self._resident.free_ahead:
                continue
            if (buffer := self._buffers.take()) is None:
                return False
            self._request(stream, run, buffer)
            return True
        return False

    def _request(self, stream: ReadStream, run: Run, buffer: PageBuffer) -> None:
        read = self._pages.begin_read(run[0], buffer.view[: run[1] * self._size])
        self._coming[run] = _Coming(read, buffer)
        self._resident.come(*run)
        stream.ahead.append(run)
        stream.end = sum(run)

    def take(self, stream: ReadStream, page: int) -> tuple[Run, PageBuffer] | None:
        """Wait for the run that has a page and return it; those before it are dropped. The buffer must be given back."""
        run = stream.coming(page)
        if run is None:
            return None
        while stream.ahead[0] != run:
            self._drop(stream.ahead.popleft())
        stream.ahead.popleft()
        coming = self._coming.pop(run)
        self._pages.finish_read(coming.read)
        return run, coming.buffer

    def give_back(self, buffer: PageBuffer) -> None:
        """Let a buffer be used again."""
        self._buffers.give_back(buffer)

    def drop_ended(self) -> None:
        """Drop what is on its way for streams that have ended."""
        while self._streams.ended:
            for run in self._streams.ended.pop().ahead:
                self._drop(run)

    def forget(self, first: int, count: int) -> None:
        """Drop the runs that have a page of a range."""
        self.drop_ended()
        for stream in self._streams:
            for run in [run for run in stream.ahead if run[0] < first + count and sum(run) > first]:
                stream.ahead.remove(run)
                self._drop(run)

    def settle(self) -> bool:
        """Finish one read that is answered, or give the buffer of a dropped one back; return whether there was one."""
        for each in self._dropped:
            if each.read.answered:
                self._dropped.remove(each)
                self._buffers.give_back(each.buffer)
                return True
        for each in self._coming.values():
            if not each.read.finished and each.read.answered:
                self._pages.finish_read(each.read)
                return True
        return False

    def _drop(self, run: Run) -> None:
        self._dropped.append(self._coming.pop(run))
        self._resident.drop(*run)
        self.dropped_pages += run[1]
