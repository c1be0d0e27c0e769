"""Which pages of a region are resident, which of them were changed, and which leave next.

Pages that came in last stay for a while, the recent ones. After it their accesses are observed for another while
(page_accesses.py), as on the second list of VAX/VMS (Turner and Levy, 1981). Where some were accessed, the program has hot pages:
all are kept, and those leave that have no access between two passes of a hand (CLOCK; Corbato, 1968). Where hardly one was, and of
pages in sequence, which are not observed while they are recent, one of eight is kept in place of a random kept one, and the rest
leaves: a program that passes over its data again and again finds a part of it resident each time, where FIFO, LRU and CLOCK find
none. Without observation no order of use is known: FIFO and random replacement then find equally many (Gelenbe, 1973).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from tiresias.services.remote_memory.region.page_runs import Run, divided, joined, outside

ABSENT, COMING, CLEAN, CHANGED = range(4)
_ABSENT, _CLEAN, _CHANGED = (bytes([mark]) for mark in (ABSENT, CLEAN, CHANGED))
RUN_PAGES = 256  # that leave together
KEPT = 8  # one of so many runs is kept when its while is over
LEAST_LEAVING = 64  # pages of a run are not divided
RECENT = 16  # one of so many resident pages has come in recently, and one of so many is observed
LEAST_RECENT = 64  # pages
MOST_OBSERVED = 32  # pages of a run
SECOND_CHANCES = 8  # kept runs that stay because they were accessed, for each one that leaves
HOT = 1 / 8  # of the observed pages; where more of them were accessed, the program has hot pages
SELDOM = 1 / 16  # where less of them were accessed, one of KEPT runs is observed
AVERAGED = 1024  # observed pages over which that is averaged
Accessed = Callable[[int, int], list[bool]]  # whether each page of a run was accessed since it is observed


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
        self._unobserved = bytearray(pages)  # 1: its accesses are not observed while it is recent
        self._recent: deque[Run] = deque()
        self._observed: deque[Run] = deque()
        self._kept: list[Run] = []
        self._again: list[Run] = []
        self._recent_pages = self._observed_pages = self._resident = self._coming = 0
        self._hand, self._accessed_share = 0, HOT
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

    def add(self, first: int, count: int, changed: bool, sequential: bool = False) -> None:
        """Note that pages on their way are resident."""
        self._mark(first, count, CHANGED if changed else CLEAN)
        self._unobserved[first : first + count] = bytes([sequential]) * count
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
        self._recent = deque(part for run in self._recent for part in outside(run, first, end))
        self._observed = deque(part for run in self._observed for part in outside(run, first, end))
        self._kept = [part for run in self._kept for part in outside(run, first, end)]
        self._recent_pages = sum(pages for _, pages in self._recent)
        self._observed_pages = sum(pages for _, pages in self._observed)
        self._mark(first, count, ABSENT)

    def begin_observation(self) -> list[Run]:
        """Return the resident runs whose accesses are to be observed from now on."""
        again = [run for run in self._again if min(self._marks[run[0] : sum(run)]) >= CLEAN]
        self._again.clear()
        while self._recent_pages > 2 * self._most_recent():  # they came in while pages were free
            self._kept.append(self._oldest_recent())
        runs: list[Run] = []
        while self._recent_pages > self._most_recent():
            first, count = run = self._oldest_recent()
            if self._accessed_share < SELDOM and self._random.randrange(KEPT):
                self._unobserved[first : first + count] = b"\1" * count
            runs.append(run)
            self._observed.append(run)
            self._observed_pages += count
        return again + [run for run in runs if self._is_observed(run)]

    def leaving(self, count: int, accessed: Accessed | None = None) -> list[Run]:
        """Choose `count` or a few more resident pages, and return them as sorted runs; each must be removed.

        Args:
            count: How many.
            accessed: What was observed; None where nothing is.
        """
        chosen: list[Run] = []
        while count > 0 and (self._recent or self._observed or self._kept):
            for first, pages in self._victims(accessed):
                if pages > max(count, LEAST_LEAVING):  # the rest of the run stays
                    self._kept.append((first + count, pages - count))
                    pages = count
                chosen.append((first, pages))
                count -= pages
        return joined(sorted(chosen))

    def _victims(self, accessed: Accessed | None) -> list[Run]:
        if self._observed_pages > self._resident // RECENT:
            return self._unused(self._oldest_observed(), accessed)
        while self._recent_pages > 2 * self._most_recent():
            self._kept.append(self._oldest_recent())
        if self._recent_pages > self._most_recent():  # nothing is observed
            return self._unused(self._oldest_recent(), None)
        if self._kept:
            return self._unused_kept(accessed) if accessed else [self._random_kept()]
        return [self._oldest_observed() if self._observed else self._oldest_recent()]

    def _unused(self, run: Run, accessed: Accessed | None) -> list[Run]:
        """Keep what was accessed of a run, of the rest one of KEPT runs, or all where there are hot pages; return the others."""
        parts, hot = [(False, run)], False
        if accessed and self._is_observed(run):
            parts, hot = self._counted(run, accessed), self._is_hot()
        keep = hot or not self._random.randrange(KEPT)
        self._kept += [part for used, part in parts if used or keep]
        return [part for used, part in parts if not used and not keep]

    def _counted(self, run: Run, accessed: Accessed) -> list[tuple[bool, Run]]:
        """Divide an observed run by its accesses, and count these."""
        found = accessed(*run)
        weight = min(1.0, len(found) / AVERAGED)
        self._accessed_share += (sum(found) / len(found) - self._accessed_share) * weight
        return divided(run, found)

    def _is_hot(self) -> bool:
        """Whether the program has hot pages: all pages are then kept until the hand of _unused_kept() finds no access."""
        return self._accessed_share > HOT

    def _is_observed(self, run: Run) -> bool:
        return run[1] <= MOST_OBSERVED and not self._unobserved[run[0]]

    def _most_recent(self) -> int:
        return max(self._least_recent, self._resident // RECENT)

    def _oldest_recent(self) -> Run:
        run = self._recent.popleft()
        self._recent_pages -= run[1]
        return run

    def _oldest_observed(self) -> Run:
        run = self._observed.popleft()
        self._observed_pages -= run[1]
        return run

    def _random_kept(self) -> Run:
        at = self._random.randrange(len(self._kept))
        self._kept[at], self._kept[-1] = self._kept[-1], self._kept[at]
        return self._kept.pop()

    def _unused_kept(self, accessed: Accessed) -> list[Run]:
        """Return parts without accesses of a kept run: of the next one, as CLOCK does, or of a random one. The others stay."""
        hot = self._is_hot()
        for _ in range(SECOND_CHANCES):
            run = self._next_kept() if hot else self._random_kept()
            if not hot and not self._is_observed(run):
                return [run]
            parts = divided(run, accessed(*run))
            used = [part for is_used, part in parts if is_used]
            self._kept += used
            self._again += used
            if len(used) < len(parts):
                return [part for is_used, part in parts if not is_used]
        return [self._next_kept() if hot else self._random_kept()]

    def _next_kept(self) -> Run:
        """Take the run at the hand, or a part of a long one."""
        self._hand %= len(self._kept)
        first, pages = self._kept[self._hand]
        if pages > MOST_OBSERVED:
            self._kept[self._hand] = (first + MOST_OBSERVED, pages - MOST_OBSERVED)
            return first, MOST_OBSERVED
        self._kept[self._hand] = self._kept[-1]
        self._kept.pop()
        self._hand += 1
        return first, pages

    def _mark(self, first: int, count: int, mark: int) -> None:
        self._marks[first : first + count] = bytes([mark]) * count
