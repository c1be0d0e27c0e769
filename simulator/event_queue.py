"""Expected events of a simulation, in the order of their moments."""

from __future__ import annotations

import math
from heapq import heappop, heappush, heapreplace


class EventQueue:
    """Expected events of jobs. Of the same moment the lower kind is first, then the lower row.

    An event is mostly followed by the next one of the same job, which takes its place in the heap.

    Attributes:
        moment: Of the first event; inf if there is none.
    """

    def __init__(self) -> None:
        self.moment = math.inf
        self._heap: list[tuple[float, int, int, int]] = []
        self._popped = False  # the first event of the heap was removed

    def push(self, moment: float, kind: int, row: int, stamp: int) -> None:
        """Add an event of a job. `stamp`: the event is out of date once the job has a newer one."""
        heap, first = self._heap, moment < self.moment
        if not self._popped:
            heappush(heap, (moment, kind, row, stamp))
        elif first:
            heap[0] = moment, kind, row, stamp
        else:
            heapreplace(heap, (moment, kind, row, stamp))
        self._popped = False
        if first:
            self.moment = moment

    def pop(self) -> tuple[float, int, int, int]:
        """Remove and return the first event: its moment, kind, row and stamp."""
        if self._popped:
            heappop(self._heap)
        heap, self._popped = self._heap, True
        if len(heap) > 2:
            second, third = heap[1][0], heap[2][0]
            self.moment = second if second < third else third
        else:
            self.moment = heap[1][0] if len(heap) > 1 else math.inf
        return heap[0]

    def clear(self) -> None:
        """Remove all events."""
        self._heap.clear()
        self.moment, self._popped = math.inf, False
