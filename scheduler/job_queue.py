"""The walk (`evict.by_rank.walk`), kept from one decision to the next, where only the number of GPUs matters.

`decide` sorts all jobs and walks them all. Between two events in a cluster hardly anything changes, so the simulator keeps its
jobs sorted: waiting ones in a heap for each number of GPUs, running ones in one list. `choose` then looks at the first waiting
job of each size and at the last running ones only. The result is that of `evict.by_rank.walk`; a property test compares them.

A key is what the policy sorts by, then the row of the job, which breaks ties; no two are equal.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.evict.cost_aware import Starter, Victim, Weighing, weigh

Key: TypeAlias = Any  # a tuple; comparisons of numbers of numpy in it return its booleans
Columns: TypeAlias = Sequence[npt.NDArray[np.generic]]  # arrays of shape (jobs,), one a part of the key
_END: Final[Key] = (float("inf"),)


class Choice(NamedTuple):
    """The result of `JobQueue.choose`.

    Attributes:
        starts: Rows of the jobs that get GPUs, the most urgent first.
        victims: Rows of the jobs that lose their GPUs.
    """

    starts: Sequence[int]
    victims: Sequence[int]


class _Sorted(Sequence[Key]):
    """Keys in order. Those at the end are looked at, again and again, and mostly no others: they are made as far as needed."""

    def __init__(self, keys: Columns) -> None:
        self._keys, self._from_last = keys, np.lexsort(tuple(reversed(keys)))[::-1]
        self._made: list[Key] = []  # the last one first

    def __len__(self) -> int:
        return len(self._from_last)

    def __getitem__(self, place: Any) -> Any:
        back = len(self._from_last) - 1 - place
        while back >= len(self._made):
            self._make_more()
        return self._made[back]

    def __reversed__(self) -> Iterator[Key]:
        for back in range(len(self._from_last)):
            if back == len(self._made):
                self._make_more()
            yield self._made[back]

    def _make_more(self) -> None:
        rows = self._from_last[len(self._made) : 2 * len(self._made) + 8]
        self._made += zip(*(key[rows].tolist() for key in self._keys), strict=True)


class _Drifting(Sequence[Key]):
    """Jobs without stored keys, then the jobs with stored keys. The former are sorted only when one of them is read."""

    def __init__(self, count: int, keys: Callable[[], Columns], kept: Sequence[Key]) -> None:
        self._count, self._keys, self._kept = count, keys, kept

    @cached_property
    def _sorted(self) -> _Sorted:
        return _Sorted(self._keys())

    def __len__(self) -> int:
        return self._count + len(self._kept)

    def __getitem__(self, place: Any) -> Any:
        return self._kept[place - self._count] if place >= self._count else self._sorted[place]

    def __reversed__(self) -> Iterator[Key]:
        yield from reversed(self._kept)
        yield from reversed(self._sorted)


class JobQueue:
    """The sorted jobs of a simulation.

    Args:
        gpus: GPUs of each row.
        blocks: Whether no job overtakes the first waiting job that does not fit.
    """

    def __init__(self, gpus: Sequence[int], blocks: bool) -> None:
        self._gpus, self._blocks = gpus, blocks
        self._heaps: dict[int, list[Key]] = {}  # by GPUs; may hold keys that are out of date
        self._heads: dict[int, Key] = {}  # the first of each heap that is up to date
        self._waiting: dict[int, Key] = {}
        self._kept: list[Key] = []
        self._running: Sequence[Key] = self._kept
        self._place: dict[int, Key] = {}  # of each row in `_kept`

    @property
    def waits(self) -> bool:
        """Whether any job waits; otherwise there is nothing to choose."""
        return bool(self._waiting)

    @property
    def backlog(self) -> int:
        """Number of jobs that wait."""
        return len(self._waiting)

    def wait(self, row: int, key: Key) -> None:
        """Add a waiting job, with this key from now on."""
        gpus = self._gpus[row]
        before, self._waiting[row] = self._waiting.get(row), key
        heappush(self._heaps.setdefault(gpus, []), key)
        head = self._heads.get(gpus)
        if head is None or key < head or before is head:
            self._find_head(gpus)

    def compete(self, row: int, key: Key) -> None:
        """Add a job that runs and may be preempted, with this key from now on."""
        self._place[row] = key
        insort(self._kept, key)

    def leave(self, row: int) -> bool:
        """Remove a running job, which may no longer be preempted. False: it was not in the queue."""
        key = self._place.pop(row, None)
        if key is not None:
            del self._kept[bisect_left(self._kept, key)]
        return key is not None

    def drift(self, count: int, keys: Callable[[], Columns]) -> None:
        """Set the number of preemptable running jobs without stored keys; they rank before all jobs with a stored key.

        `keys` returns their keys. It is called only when one of them is read.
        """
        self._running = _Drifting(count, keys, self._kept) if count else self._kept

    def choose(
        self, free: int, weighing: Weighing | None = None, drains: Callable[[int], int | None] | None = None
    ) -> Choice:
        """Choose the jobs to start and to preempt. Jobs that start are removed from the queue, victims are not.

        O(sizes x log(sizes) + GPUs of the jobs that start).

        Args:
            free: Unallocated GPUs.
            weighing: What preemptions are weighed by; None: they are not weighed.
            drains: GPUs that jobs outside the queue will free while GPUs are kept free for a row (`drain`), None: none are kept
                free for it.
        """
        starts: list[Key] = []
        victims: list[Key] = []
        heads = sorted(self._heads.values())
        stop = _END
        slack = free  # what is left when all running jobs that are not victims stay
        for head in heads:  # which grows
            gpus = self._gpus[head[-1]]
            if slack < 0:
                slack = self._skip(head, slack, victims)
            if gpus <= slack or self._fits(head, gpus - slack):
                slack -= gpus
                self._take(head, starts, heads)
            elif self._blocks or (drains and self._drains(head, slack, drains(head[-1]))):
                stop = head
                break
        slack = self._skip(_END, slack, victims)
        if weighing and victims:
            self._spare(weighing, starts, victims, slack, stop)
        return Choice([key[-1] for key in starts], [key[-1] for key in victims])

    def _drains(self, head: Key, slack: int, freed: int | None) -> bool:
        """Return whether the job would fit once all lower-ranked jobs were preempted and `freed` GPUs were free, too."""
        if freed is None:
            return False
        lower_ranked: int = sum(self._gpus[key[-1]] for key in self._running if key > head)
        gpus: int = self._gpus[head[-1]]
        return gpus <= slack + lower_ranked + freed

    def _spare(self, weighing: Weighing, starts: list[Key], victims: list[Key], free: int, stop: Key) -> None:
        """Remove the victims whose preemption is not worth its cost, and the starts that would get their GPUs."""
        gpus, (worth, loss, release_rate) = self._gpus, weighing
        starters = [Starter(gpus[key[-1]], worth(key[-1])) for key in starts]
        losers = [Victim(gpus[key[-1]], bisect_left(starts, key), loss(key[-1])) for key in victims]
        verdict = weigh(free, starters, losers, release_rate)
        for place in reversed(verdict.spared):
            del victims[place]
        for key in starts[verdict.starts :]:
            self.wait(key[-1], key)
        del starts[verdict.starts :]
        if verdict.spared:
            self._fill(verdict.free, starts, stop)

    def _fill(self, free: int, starts: list[Key], stop: Key) -> None:
        """Start the jobs before `stop` that fit the free GPUs, in order."""
        heads = sorted(self._heads.values())
        for head in heads:  # which grows
            if head >= stop:
                break
            gpus = self._gpus[head[-1]]
            if gpus <= free:
                free -= gpus
                self._take(head, starts, heads)
        starts.sort()

    def _take(self, head: Key, starts: list[Key], heads: list[Key]) -> None:
        """The first one of its size starts, and the next one becomes the first."""
        starts.append(head)
        del self._waiting[head[-1]]
        gpus = self._gpus[head[-1]]
        if self._find_head(gpus):
            insort(heads, self._heads[gpus])

    def _find_head(self, gpus: int) -> bool:
        """The first waiting job of this size. False: there is none."""
        heap = self._heaps[gpus]
        while heap and self._waiting.get(heap[0][-1]) is not heap[0]:
            heappop(heap)
        if heap:
            self._heads[gpus] = heap[0]
        else:
            self._heads.pop(gpus, None)
        return bool(heap)

    def _fits(self, key: Key, short: int) -> bool:
        """Return whether running jobs that rank after the key hold so many GPUs, which are what the job can get."""
        for lower_ranked in reversed(self._running):
            if lower_ranked < key:
                return False
            short -= self._gpus[lower_ranked[-1]]
            if short <= 0:
                return True
        return False

    def _skip(self, key: Key, slack: int, victims: list[Key]) -> int:
        """Running jobs before the key which do not fit any more become victims. Returns the slack then.

        The first of them is the first of the fewest last ones that together hold what is missing: all before it fit.
        """
        while slack < 0:
            place, missing = len(self._running), -slack
            while missing > 0:
                place -= 1
                missing -= self._gpus[self._running[place][-1]]
            if self._running[place] > key:
                break
            victims.append(self._running[place])
            slack += self._gpus[victims[-1][-1]]
        return slack
