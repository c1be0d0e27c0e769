"""The windows of streams and the marks of resident pages, against sets of pages."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.services.remote_memory.region.read_streams import MOST_STREAMS, ReadStreams
from tiresias.services.remote_memory.region.resident_pages import ResidentPages
from tiresias.services.remote_memory.region.write_stream import WriteStream

PAGES = 96
FAULTS = st.lists(st.tuples(st.integers(0, PAGES - 1), st.booleans()), max_size=200)


class ModelledPages:
    """The marks of a region, and what they are to be."""

    def __init__(self, limit: int, seed: int = 1) -> None:
        self.marks = ResidentPages(limit, PAGES, Random(seed))
        self.resident: dict[int, bool] = {}  # page -> changed
        self.coming: set[int] = set()
        self.limit, self.observes = limit, seed % 2 == 0
        self.unmapped: set[int] = set()

    def accessed(self, first: int, count: int) -> list[bool]:
        """Odd pages are accessed after they were unmapped."""
        assert self.resident.keys() >= set(range(first, first + count))
        return [page % 2 == 1 or page not in self.unmapped for page in range(first, first + count)]

    def send_out(self, count: int) -> None:
        if self.observes:
            for first, pages in self.marks.begin_observation():
                assert self.resident.keys() >= set(range(first, first + pages)), "only resident pages are unmapped"
                self.unmapped |= set(range(first, first + pages))
        for first, pages in self.marks.leaving(count, self.accessed if self.observes else None):
            run = range(first, first + pages)
            changed = {
                page for start, length in self.marks.changed_runs(first, pages) for page in range(start, start + length)
            }
            assert changed == {page for page in run if self.resident[page]}
            self.marks.remove(first, pages)
            for page in run:
                del self.resident[page]
                self.unmapped.discard(page)

    def forget(self, first: int, count: int) -> None:
        count = min(count, PAGES - first)
        self.marks.forget(first, count)
        for page in self.resident.keys() & set(range(first, first + count)):
            del self.resident[page]
            self.unmapped.discard(page)

    def add(self, first: int, count: int, changed: bool) -> None:
        run = range(first, first + count)
        assert not (self.resident.keys() | self.coming) & set(run)
        self.marks.come(first, count)
        self.marks.add(first, count, changed)
        self.resident |= dict.fromkeys(run, changed)

    def check(self) -> None:
        assert len(self.marks) == len(self.resident)
        assert self.marks.free == self.limit - len(self.resident) - len(self.coming) >= 0
        assert self.marks.absent == PAGES - len(self.resident) - len(self.coming)
        assert {page for page in range(PAGES) if page in self.marks} == self.resident.keys()


@given(FAULTS, st.integers(8, 64), st.integers(1, 16), st.integers(0, 9))
def test_the_marks_are_those_of_a_set_and_never_more_than_the_limit(
    faults: list[tuple[int, bool]], limit: int, most: int, seed: int
) -> None:
    pages = ModelledPages(limit, seed)
    for page, write in faults:
        if page in pages.marks:
            if write:
                pages.marks.changed(page, 1)
                pages.resident[page] = True
            continue
        count = pages.marks.absent_run(page, min(most, limit))
        assert 1 <= count <= most
        if count > pages.marks.free:
            pages.send_out(count - pages.marks.free)
        pages.add(page, count, write)
        pages.check()
        if write and page % 5 == 0:
            pages.forget(page - page // 2, page // 2 + 3)
            pages.check()
    pages.send_out(PAGES)
    assert not pages.resident


@given(FAULTS, st.integers(32, 64), st.integers(1, 8))
def test_streams_request_absent_pages_once(faults: list[tuple[int, bool]], limit: int, most: int) -> None:
    """Follow random faults, each continued over a few pages, as the handler does; each page is in one place only."""
    pages = ModelledPages(limit)
    streams = ReadStreams(pages.marks, most)
    for start, write in faults:
        following = range(start, min(start + 5, PAGES)) if start % 3 else range(start, max(start - 5, -1), -1)
        for page in following:
            if page not in pages.marks:
                _fault(pages, streams, page, write)
            pages.check()
            assert len(list(streams)) <= MOST_STREAMS


def _fault(pages: ModelledPages, streams: ReadStreams, page: int, write: bool) -> None:
    stream = streams.at_fault(page, write)
    for ended in streams.ended:
        _drop(pages, list(ended.ahead))
    streams.ended.clear()
    run = stream.coming(page)
    if run is None:
        assert page not in pages.coming
        run = streams.run_at(stream, page)
        assert run[0] <= page < sum(run)
        if run[1] > pages.marks.free:
            pages.send_out(run[1] - pages.marks.free)
    else:
        at = stream.ahead.index(run)
        _drop(pages, [stream.ahead.popleft() for _ in range(at + 1)])
    pages.add(*run, write)
    stream.start, stream.end = run[0], max(stream.end, sum(run))
    for each in streams:
        if (ahead := streams.next_run(each)) and ahead[1] <= pages.marks.free_ahead:
            assert not set(range(ahead[0], sum(ahead))) & (pages.resident.keys() | pages.coming)
            pages.marks.come(*ahead)
            pages.coming |= set(range(ahead[0], sum(ahead)))
            each.ahead.append(ahead)
            each.end = sum(ahead)


def _drop(pages: ModelledPages, runs: list[tuple[int, int]]) -> None:
    for first, count in runs:
        pages.marks.drop(first, count)
        pages.coming -= set(range(first, first + count))


def bring(marks: ResidentPages, page: int, count: int, changed: bool = False) -> None:
    marks.come(page, count)
    marks.add(page, count, changed)


def windows(faults: Iterator[int] | list[int], pages: int = 1 << 14, most: int = 256) -> list[int]:
    """Return the windows at faults, without memory pressure."""
    marks = ResidentPages(pages, pages)
    streams, found = ReadStreams(marks, most), []
    for page in faults:
        if page in marks:
            continue
        stream = streams.at_fault(page, write=False)
        first, count = streams.run_at(stream, page)
        found.append(count)
        bring(marks, first, count)
        stream.start, stream.end = first, max(stream.end, first + count)
    return found


def test_windows_grow_while_faults_are_in_sequence() -> None:
    assert windows(list(range(1000)))[:6] == [1, 4, 16, 64, 128, 256]
    assert windows(list(range(1000, 0, -1)))[:6] == [1, 4, 16, 64, 128, 256]


@pytest.mark.parametrize("streams", [2, 5, MOST_STREAMS])
def test_interleaved_streams_have_a_window_each(streams: int) -> None:
    found = windows([1000 * stream + page for page in range(600) for stream in range(streams)])
    assert len(found) <= 8 * streams


def test_random_faults_bring_in_one_page_and_samples_bring_in_many() -> None:
    chance = Random(1)
    assert sum(windows([chance.randrange(1 << 14) for _ in range(500)])[100:]) < 480
    starts = list(range(0, 1 << 14, 64))
    chance.shuffle(starts)
    found = windows([start + page for start in starts for page in range(40)])
    assert len(found) < 4.5 * len(starts)


def test_a_stream_passes_over_resident_pages() -> None:
    marks = ResidentPages(4096, 4096)
    bring(marks, 64, 64)
    streams = ReadStreams(marks, 32)
    stream = streams.at_fault(63, write=False)
    stream.end = 64
    bring(marks, 63, 1)
    assert streams.at_fault(128, write=False) is stream
    assert streams.next_run(stream) is None
    assert streams.at_fault(128, write=False) is stream
    assert streams.next_run(stream) == (128, stream.window)


@given(st.integers(64, 512), st.floats(0.5, 0.9))
def test_repeated_passes_find_a_part_resident(runs: int, share: float) -> None:
    """FIFO finds none: each page leaves just before it is needed."""
    pages = runs * 64
    marks, hits = ResidentPages(max(512, int(share * pages)), pages, Random(runs)), 0
    for number in range(8 * runs):
        page = number % runs * 64
        if page in marks:
            hits += number >= 4 * runs
            continue
        if marks.free < 64:
            for run in marks.leaving(64 - marks.free):
                marks.remove(*run)
        bring(marks, page, 64)
    assert hits / (4 * runs) > 0.5 * share


def misses(hot: int, cold: int, limit: int, observes: bool) -> float:
    """Return the share of accesses to hot pages that were misses, where each second access is to one of `cold` pages."""
    chance, mapped = Random(3), set[int]()
    marks, found, accesses = ResidentPages(limit, hot + cold, Random(4)), 0, 40_000

    def accessed(first: int, count: int) -> list[bool]:
        return [page in mapped for page in range(first, first + count)]

    for number in range(accesses):
        page = chance.randrange(hot) if number % 2 else hot + chance.randrange(cold)
        if page not in marks:
            found += page < hot and number > accesses // 2
            bring(marks, page, 1)
            while marks.free < 64:
                for first, count in marks.begin_observation() if observes else ():
                    mapped.difference_update(range(first, first + count))
                for run in marks.leaving(64, accessed if observes else None):
                    marks.remove(*run)
        mapped.add(page)
    return found / (accesses // 4)


def test_hot_pages_are_kept_where_their_accesses_are_known() -> None:
    """300 of 10,000 pages have half of the accesses; 2,000 can be resident."""
    assert misses(300, 9700, 2000, observes=True) < 0.02
    assert misses(300, 9700, 2000, observes=False) > 0.06


def test_pages_in_sequence_are_not_observed() -> None:
    marks = ResidentPages(1024, 4096)
    for page in range(0, 256, 2):
        marks.come(page, 1)
        marks.add(page, 1, changed=False, sequential=page % 4 == 0)
    assert {page % 4 for page, _ in marks.begin_observation()} == {2}


def test_write_windows_grow_and_stay_within_clean_pages() -> None:
    marks = ResidentPages(128, 128)
    bring(marks, 0, 40)
    bring(marks, 60, 10, changed=True)
    writes, found, page = WriteStream(marks, 64), [], 0
    while page < 40:
        found.append(writes.at_fault(page))
        marks.changed(*found[-1])
        page = sum(found[-1])
    assert [count for _, count in found] == [1, 2, 4, 8, 16, 9]
    assert writes.at_fault(65) == (65, 1)
    bring(marks, 80, 40)
    assert [writes.at_fault(page) for page in (119, 118, 116)] == [(119, 1), (117, 2), (113, 4)]
