"""Which page faults are in sequence, and how many pages come in at each: windows that grow, of several streams at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tiresias.services.remote_memory.region.page_runs import Run
from tiresias.services.remote_memory.region.resident_pages import ResidentPages

MOST_STREAMS = 8
MOST_WINDOW = 512  # pages
MOST_FIRST_WINDOW = 32
CONTINUED = 2  # faults, after which pages are requested ahead
NOT_CONTINUED = 16  # streams of one fault, after which first windows are halved: a fault costs as much as many pages
WINDOWS_AHEAD = 4
SKIPPED = 4096  # resident pages that a stream passes over without a fault, at most


class ReadStream:
    """Faults in sequence.

    Attributes:
        window: How many pages come in at a fault.
        start: The first page of what came in last.
        end: The page after the last one that came in or is on its way.
        continued: How many faults have followed the first one.
        backward: Whether the last one was at a lower address, as in a copy that begins at its end.
        written: Whether the program has written to the pages of its last window.
        ahead: Runs that are on their way, in order.
    """

    __slots__ = ("ahead", "backward", "continued", "end", "start", "window", "written")

    def __init__(self, page: int, window: int, written: bool) -> None:
        self.window, self.start, self.end, self.written = window, page, page, written
        self.continued, self.backward = 0, False
        self.ahead: deque[Run] = deque()

    @property
    def is_followed(self) -> bool:
        """Whether so many faults were in sequence that pages are requested ahead."""
        return self.continued >= CONTINUED

    def coming(self, page: int) -> Run | None:
        """Return the run on its way that has a page."""
        if not self.ahead:
            return None
        return next((run for run in self.ahead if run[0] <= page < run[0] + run[1]), None)


class ReadStreams:
    """The streams of a region. A fault costs O(streams).

    Args:
        resident: The region's pages.
        most_window: The most pages of a window.
    """

    def __init__(self, resident: ResidentPages, most_window: int) -> None:
        self._resident, self._most_window = resident, most_window
        self._streams: deque[ReadStream] = deque()  # that of the last fault is the last
        self._followed: list[ReadStream] = []
        self._first_window, self._not_continued = 1, 0
        self.ended: list[ReadStream] = []

    def __iter__(self) -> Iterator[ReadStream]:
        return iter(self._streams)

    @property
    def widest(self) -> int:
        """The largest window of a stream that is followed; 0 without one."""
        return max((stream.window for stream in self._followed), default=0)

    def followed(self) -> list[ReadStream]:
        """Return the streams for which pages are requested ahead, that of the last fault last."""
        return self._followed

    def at_fault(self, page: int, write: bool) -> ReadStream:
        """Return the stream of a fault of an absent page; a new one where it continues none. A replaced one is in `ended`."""
        for stream in reversed(self._streams):
            if not stream.start - SKIPPED <= page < stream.end + SKIPPED:
                continue
            forward = stream.coming(page) is not None or self.next_page(stream) == page
            if forward or self._resident.last_absent(stream.start, SKIPPED) == page:
                self._continue(stream, write, backward=not forward)
                return stream
        if len(self._streams) == MOST_STREAMS:
            self._end(self._streams.popleft())
        stream = ReadStream(page, min(self._first_window, self._most_window), write)
        self._streams.append(stream)
        return stream

    def run_at(self, stream: ReadStream, page: int) -> Run:
        """Return the absent pages that come in at a fault."""
        if stream.backward:
            count = self._resident.absent_run_to(page, stream.window)
            return page - count + 1, count
        return page, self._resident.absent_run(page, stream.window)

    def next_page(self, stream: ReadStream) -> int | None:
        """Return the page whose fault continues a stream: the first absent one after its end."""
        return self._resident.next_absent(stream.end, SKIPPED)

    def next_run(self, stream: ReadStream) -> Run | None:
        """Return what is to be requested ahead for a stream; None where enough is on its way."""
        left = stream.window - sum(count for _, count in stream.ahead)
        if (
            stream.backward
            or not stream.is_followed
            or left <= stream.window // 2
            or len(stream.ahead) >= WINDOWS_AHEAD
        ):
            return None
        first = self.next_page(stream)
        return None if first is None else (first, self._resident.absent_run(first, left))

    def written(self, page: int) -> None:
        """Note that the program writes to a page that came in."""
        for stream in self._streams:
            if stream.start <= page < stream.end:
                stream.written = True

    def _continue(self, stream: ReadStream, write: bool, backward: bool) -> None:
        if not stream.continued:
            self._first_window, self._not_continued = min(2 * self._first_window, MOST_FIRST_WINDOW), 0
        stream.backward = backward
        stream.continued, stream.written = stream.continued + 1, stream.written or write
        stream.window = min(self._most_window, stream.window * (4 if stream.window < MOST_FIRST_WINDOW else 2))
        self._streams.remove(stream)
        self._streams.append(stream)
        if stream.continued > CONTINUED:
            self._followed.remove(stream)
        if stream.is_followed:
            self._followed.append(stream)

    def _end(self, stream: ReadStream) -> None:
        if stream.is_followed:
            self._followed.remove(stream)
        self._not_continued += not stream.continued
        if self._not_continued == NOT_CONTINUED:
            self._first_window, self._not_continued = max(1, self._first_window // 2), 0
        self.ended.append(stream)
