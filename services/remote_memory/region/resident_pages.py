"""Which pages of a region are resident, which of them were changed, and which leave next.

The kernel reports no accesses to resident pages, so no order of use is known, and a second chance is impossible. Pages that came in
last stay for a while. After it most of them leave again and the others replace random ones: a program that passes over its data
again and again finds a part of it resident each time, where FIFO and LRU find none. With random accesses FIFO and random
replacement find equally many (Gelenbe, 1973).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random

ABSENT, COMING, CLEAN, CHANGED = range(4)
_ABSENT, _CLEAN, _CHANGED = (bytes([mark]) for mark in (ABSENT, CLEAN, CHANGED))
RUN_PAGES = 256  # that leave together
KEPT = 8  # one of so many runs is kept when its while is over
LEAST_LEAVING = 64  # pages of a run are not divided
RECENT = 8  # one of so many resident pages has come in recently
LEAST_RECENT = 64  # pages
Run = tuple[int, int]  # the first page, and how many


class ResidentPages:
    """A mark for each page, and the resident runs. Searches are of a range of marks; the rest is O(runs concerned).

    Args:
        limit: How many pages may be resident or coming.
        pages: Pages of the region.
        random: The source of the choice.
    """

    def __init__(self, limit: int, pages: int, random: Random | None = None) -> None:
        self._limit, self.pages = limit, pages
        self._marks = bytearray(pages)
        self._recent: deque[Run] = deque()
        self._kept: list[Run] = []
        self._recent_pages = self._resident = self._coming = 0
        self._least_recent = max(limit // RECENT // 2, min(LEAST_RECENT, limit // 2))
        self._random = random or Random()

    def __contains__(self, page: int) -> bool:
        return self._marks[page] >= CLEAN

    def __len__(self) -> int:
        return self._resident

    @property
    def free(self) -> int:
        """How many pages may come in before others leave."""
        return self._limit - self._resident - self._coming

    @property
    def free_ahead(self) -> int:
        """How many pages may be on their way in addition: a quarter of the limit is for such pages."""
        return min(self.free, self._limit // 4 - self._coming)

    @property
    def absent(self) -> int:
        """How many pages are neither resident nor coming."""
        return self.pages - self._resident - self._coming

    # -- runs --------------------------------------------------------------------------------------------------------------------

    def next_absent(self, page: int, within: int) -> int | None:
        """Return the first absent page of the next `within` pages."""
        found = self._marks.find(_ABSENT, page, page + within)
        return None if found == -1 else found

    def absent_run(self, page: int, most: int) -> int:
        """Return how many pages from this one on are absent, at most `most`."""
        return self._run(page, most, _ABSENT)

    def last_absent(self, page: int, within: int) -> int | None:
        """Return the last absent page of the `within` pages before this one."""
        found = self._marks.rfind(_ABSENT, max(0, page - within), page)
        return None if found == -1 else found

    def absent_run_to(self, page: int, most: int) -> int:
        """Return how many pages up to this one are absent, at most `most`."""
        return self._run_to(page, most, _ABSENT)

    def clean_run(self, page: int, most: int) -> int:
        """Return how many pages from this one on are resident and not changed, at most `most`."""
        return self._run(page, most, _CLEAN)

    def clean_run_to(self, page: int, most: int) -> int:
        """Return how many pages up to this one are resident and not changed, at most `most`."""
        return self._run_to(page, most, _CLEAN)

    def changed_runs(self, first: int, count: int) -> list[Run]:
        """Return the runs of changed pages among resident ones."""
        runs, at, end = [], first, first + count
        while (at := self._marks.find(_CHANGED, at, end)) != -1:
            runs.append((at, self._run(at, end - at, _CHANGED)))
            at += runs[-1][1]
        return runs

    def _run(self, page: int, most: int, mark: bytes) -> int:
        part = self._marks[page : page + most]
        return len(part) - len(part.lstrip(mark))

    def _run_to(self, page: int, most: int, mark: bytes) -> int:
        part = self._marks[max(0, page - most + 1) : page + 1]
        return len(part) - len(part.rstrip(mark))

    # -- changes -----------------------------------------------------------------------------------------------------------------

    def come(self, first: int, count: int) -> None:
        """Note that absent pages are on their way."""
        self._mark(first, count, COMING)
        self._coming += count

    def drop(self, first: int, count: int) -> None:
        """Note that pages on their way do not come in."""
        self._mark(first, count, ABSENT)
        self._coming -= count

    def add(self, first: int, count: int, changed: bool) -> None:
        """Note that pages on their way are resident."""
        self._mark(first, count, CHANGED if changed else CLEAN)
        self._coming -= count
        self._resident += count
        self._recent_pages += count
        for start in range(first, first + count, RUN_PAGES):
            self._recent.append((start, min(RUN_PAGES, first + count - start)))

    def changed(self, first: int, count: int) -> None:
        """Note that resident pages are changed."""
        self._mark(first, count, CHANGED)

    def remove(self, first: int, count: int) -> None:
        """Note that pages which leaving() has returned have left."""
        self._mark(first, count, ABSENT)
        self._resident -= count

    def forget(self, first: int, count: int) -> None:
        """Note that the resident pages of a range have left, which has no page on its way. O(runs)."""
        end = first + count
        self._resident -= count - self._marks.count(ABSENT, first, end)
        self._recent = deque(part for run in self._recent for part in _outside(run, first, end))
        self._kept = [part for run in self._kept for part in _outside(run, first, end)]
        self._recent_pages = sum(pages for _, pages in self._recent)
        self._mark(first, count, ABSENT)

    def leaving(self, count: int) -> list[Run]:
        """Choose `count` or a few more resident pages, and return them as sorted runs; each must be removed."""
        chosen: list[Run] = []
        while count > 0 and (self._recent or self._kept):
            first, pages = self._victim()
            if pages > max(count, LEAST_LEAVING):  # the rest of the run stays
                self._kept.append((first + count, pages - count))
                pages = count
            chosen.append((first, pages))
            count -= pages
        return _joined(sorted(chosen))

    def _victim(self) -> Run:
        while self._recent and self._recent_pages > max(self._least_recent, self._resident // RECENT):
            self._kept.append(self._oldest_recent())
        keep = bool(self._recent) and not self._random.randrange(KEPT)
        if keep:
            self._kept.append(self._oldest_recent())
        if self._kept and (keep or self._recent_pages <= self._least_recent // 2):
            return self._random_kept()
        return self._oldest_recent()

    def _oldest_recent(self) -> Run:
        run = self._recent.popleft()
        self._recent_pages -= run[1]
        return run

    def _random_kept(self) -> Run:
        at = self._random.randrange(len(self._kept))
        self._kept[at], self._kept[-1] = self._kept[-1], self._kept[at]
        return self._kept.pop()

    def _mark(self, first: int, count: int, mark: int) -> None:
        self._marks[first : first + count] = bytes([mark]) * count


def _outside(run: Run, first: int, end: int) -> Iterator[Run]:
    """Yield the parts of a run before `first`, and from `end` on."""
    start, stop = run[0], sum(run)
    if start < first:
        yield start, min(stop, first) - start
    if stop > end:
        yield max(start, end), stop - max(start, end)


def _joined(runs: list[Run]) -> list[Run]:
    """Join runs that follow each other."""
    found: list[Run] = []
    for first, count in runs:
        if found and sum(found[-1]) == first:
            found[-1] = (found[-1][0], found[-1][1] + count)
        else:
            found.append((first, count))
    return found
