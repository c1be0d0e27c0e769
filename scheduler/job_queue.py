"""The walk (`evict.by_rank.walk`), kept from one decision to the next, where only the number of GPUs matters.

`decide` sorts all jobs and walks them all. Between two events in a cluster hardly anything changes, so the simulator keeps its
jobs sorted: waiting ones in a heap for each number of GPUs, running ones in one list. `choose` then looks at the first waiting
job of each size and at the last running ones only. The result is that of `evict.by_rank.walk`; a property test compares them.

A key is what the policy sorts by, then the row of the job, which breaks ties; no two are equal.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from tiresias.scheduler.evict.cost_aware import Starter, Victim, Weighing, weigh
from tiresias.scheduler.running_keys import Columns, Key, RunningKeys

_END: Final[Key] = (float("inf"),)
_UNKNOWN: Final = -1


class Choice(NamedTuple):
    """The result of `JobQueue.choose`.

    Attributes:
        starts: Rows of the jobs that get GPUs, the most urgent first.
        victims: Rows of the jobs that lose their GPUs.
    """

    starts: Sequence[int]
    victims: Sequence[int]


NOTHING: Final = Choice((), ())


class JobQueue:
    """The sorted jobs of a simulation.

    Args:
        gpus: GPUs of each row.
        blocks: Whether no job overtakes the first waiting job that does not fit.

    Attributes:
        waiting: The key of each row that waits. Where none waits there is nothing to choose.
    """

    def __init__(self, gpus: list[int], blocks: bool) -> None:
        self._gpus, self._blocks = gpus, blocks
        self._heaps: dict[int, list[Key]] = {}  # by GPUs; may hold keys that are out of date
        self._heads: dict[int, Key] = {}  # the first of each heap that is up to date
        self.waiting: dict[int, Key] = {}
        self._running = RunningKeys()
        # With so many free GPUs, or fewer, the next walk selects no waiting job either. It is repeated once a job is the first one
        # of its size, or a running job ranks after the first waiting one.
        self._too_few = _UNKNOWN
        self._first: Key = _END  # the first waiting job then

    def wait(self, row: int, key: Key) -> None:
        """Add a waiting job, with this key from now on."""
        gpus = self._gpus[row]
        before, self.waiting[row] = self.waiting.get(row), key
        heappush(self._heaps.setdefault(gpus, []), key)
        head = self._heads.get(gpus)
        if head is None or key < head or before is head:
            self._find_head(gpus)

    def compete(self, row: int, key: Key) -> None:
        """Add a job that runs and may be preempted, with this key from now on."""
        self._running.add(row, key)
        if key > self._first:
            self._too_few = _UNKNOWN

    def leave(self, row: int) -> bool:
        """Remove a running job, which may no longer be preempted. False: it was not in the queue."""
        return self._running.remove(row)

    def drift(self, count: int, keys: Callable[[], Columns]) -> None:
        """Set the number of preemptable running jobs without stored keys; they rank before all jobs with a stored key.

        `keys` returns their keys. It is called only when one of them is read.
        """
        self._running.drift(count, keys)
        self._too_few = _UNKNOWN

    def selects_none(self, free: int) -> bool:
        """Return whether `choose` would return no job, as far as that follows from the choice before."""
        return 0 <= free <= self._too_few

    def choose(
        self,
        free: int,
        weighing: Callable[[], Weighing] | None = None,
        drains: Callable[[int], int | None] | None = None,
    ) -> Choice:
        """Choose the jobs to start and to preempt. Jobs that start are removed from the queue, victims are not.

        O(sizes x log(sizes) + GPUs of the jobs that start).

        Args:
            free: Unallocated GPUs.
            weighing: Returns what preemptions are weighed by; None: they are not weighed.
            drains: GPUs that jobs outside the queue will free while GPUs are kept free for a row (`drain`), None: none are kept
                free for it.
        """
        starts: list[Key] = []
        victims: list[Key] = []
        if self.selects_none(free):
            return NOTHING
        heads = sorted(self._heads.values())
        last = self._running.from_last(0) if len(self._running) else ()
        stop = _END
        slack = free  # what is left when all running jobs that are not victims stay
        for head in heads:  # which grows
            gpus = self._gpus[head[-1]]
            if slack < 0:
                slack = self._skip(head, slack, victims)
            if gpus <= slack or (head < last and self._fits(head, gpus - slack)):
                slack -= gpus
                self._take(head, starts, heads)
            elif self._blocks or (drains and self._drains(head, slack, drains(head[-1]))):
                stop = head
                break
        repeats = not starts and (self._blocks or stop is _END)
        self._too_few, self._first = free if repeats else _UNKNOWN, heads[0] if heads else _END
        slack = self._skip(_END, slack, victims)
        if weighing and victims:
            self._spare(weighing(), starts, victims, slack, stop)
        return Choice([key[-1] for key in starts], [key[-1] for key in victims])

    def _drains(self, head: Key, slack: int, freed: int | None) -> bool:
        """Return whether the job would fit once all lower-ranked jobs were preempted and `freed` GPUs were free, too."""
        if freed is None:
            return False
        return self._fits(head, self._gpus[head[-1]] - slack - freed)

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
        del self.waiting[head[-1]]
        gpus = self._gpus[head[-1]]
        if self._find_head(gpus):
            insort(heads, self._heads[gpus])

    def _find_head(self, gpus: int) -> bool:
        """The first waiting job of this size. False: there is none."""
        self._too_few = _UNKNOWN
        heap = self._heaps[gpus]
        while heap and self.waiting.get(heap[0][-1]) is not heap[0]:
            heappop(heap)
        if heap:
            self._heads[gpus] = heap[0]
        else:
            self._heads.pop(gpus, None)
        return bool(heap)

    def _fits(self, key: Key, short: int) -> bool:
        """Return whether running jobs that rank after the key hold so many GPUs, which are what the job can get."""
        running = self._running
        for place in range(len(running)):
            if short <= 0:
                return True
            lower_ranked = running.from_last(place)
            if lower_ranked < key:
                return False
            short -= self._gpus[lower_ranked[-1]]
        return short <= 0

    def _skip(self, key: Key, slack: int, victims: list[Key]) -> int:
        """Running jobs before the key which do not fit any more become victims. Returns the slack then.

        The first of them is the first of the fewest last ones that together hold what is missing: all before it fit.
        """
        while slack < 0:
            place, missing = -1, -slack
            while missing > 0:
                place += 1
                missing -= self._gpus[self._running.from_last(place)[-1]]
            victim = self._running.from_last(place)
            if victim > key:
                break
            victims.append(victim)
            slack += self._gpus[victim[-1]]
        return slack
