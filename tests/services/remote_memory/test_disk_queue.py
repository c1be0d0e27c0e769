"""The queue of the disk against a dictionary of pages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiresias.services.remote_memory.client.disk_queue import DiskQueue

PAGE, PAGES, MOST = 8, 24, 16
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "write", "write part", "begin"]), st.integers(0, PAGES - 1), st.integers(1, 9)
    ),
    max_size=80,
)


class DiskModel:
    """A queue, the disk that it is written to, and the newest content of each page."""

    def __init__(self) -> None:
        self.queue = DiskQueue(PAGE, MOST)
        self.disk: dict[int, bytes] = {}
        self.newest: dict[int, bytes] = {}
        self.waiting: set[int] = set()
        self.written = 0

    def add(self, page: int, pages: int) -> None:
        numbers = range(page, min(page + pages, PAGES))
        has_place = len(self.waiting | set(numbers)) <= MOST
        assert self.queue.has_place(page, len(numbers)) == has_place
        if has_place:
            self.written += 1
            contents = [b"%4d%4d" % (self.written, each) for each in numbers]
            number = self.queue.add(page, memoryview(b"".join(contents)))
            self.newest |= dict(zip(numbers, contents, strict=True))
            self.waiting |= set(numbers)
            assert self.queue.waits(numbers, number)

    def write(self, most: int, whole: bool, between: tuple[int, int] | None = None) -> None:
        """Write what waits longest, or a part of it; pages may be queued again in the meantime."""
        if not self.waiting:
            return
        parts = self.queue.next_parts(most)
        assert sum(part.pages for part in parts) <= most
        before = dict(self.newest)
        contents = b"".join(self.queue.content(part) for part in parts)
        if between:
            self.add(*between)
        left = len(contents) // PAGE if whole else max(1, len(contents) // PAGE // 2)
        for at in range(left):
            self.disk[parts[0].page + at] = contents[at * PAGE : (at + 1) * PAGE]
            if before[parts[0].page + at] == self.newest[parts[0].page + at]:
                self.waiting.discard(parts[0].page + at)
        for part in parts:
            self.queue.remove(part._replace(pages=min(left, part.pages)))
            left = max(0, left - part.pages)

    def check(self) -> None:
        assert len(self.queue) == len(self.waiting)
        for page, content in self.newest.items():
            queued = self.queue.find(page)
            assert (queued is not None) == (page in self.waiting)
            assert bytes(queued if queued is not None else self.disk[page]) == content


@given(STEPS)
def test_the_newest_content_is_in_the_queue_or_on_the_disk(steps: list[tuple[str, int, int]]) -> None:
    model = DiskModel()
    for kind, page, count in steps:
        if kind == "add":
            model.add(page, count)
        else:
            model.write(count, kind != "write part", (page, count) if kind == "begin" else None)
        model.check()
    while model.waiting:
        model.write(PAGES, whole=True)
    model.check()
