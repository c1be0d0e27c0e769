"""The tasks of the migration thread, in the order in which the training needs them.

Commits come first, then copies, then memory that is prepared, then memory that is freed. A copy waits until the idle window of its
job opens; what can wait is done in an idle window only. A job without training has one long window.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tiresias.services.parameter_service.aggregator.hosted_job import HostedJob

HELD_S = 2.0  # a task does not wait longer for a window


class Urgency(IntEnum):
    """The order of tasks that are due at once."""

    COMMIT = 0
    COPY = 1
    PREPARE = 2
    FREE = 3


@dataclass
class _Gate:
    """The tasks of one job that wait for its window."""

    copies: deque[tuple[float, Any]] = field(default_factory=deque)
    others: deque[tuple[float, Any]] = field(default_factory=deque)


class MigrationQueue:
    """A queue of one consumer.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._order = itertools.count()
        self._ready: list[tuple[int, int, Any]] = []
        self._later: list[tuple[float, int, int, Any]] = []
        self._gates: dict[HostedJob, _Gate] = {}
        self._ended = False

    def put(self, urgency: Urgency, task: Any, after_s: float = 0.0) -> None:
        """Add a task that waits for no window."""
        with self._changed:
            item = (int(urgency), next(self._order), task)
            if after_s:
                heapq.heappush(self._later, (self._clock() + after_s, *item))
            else:
                heapq.heappush(self._ready, item)
            self._changed.notify()

    def put_in_window(self, urgency: Urgency, job: HostedJob, task: Any) -> None:
        """Add a task that waits for the idle window of its job, for HELD_S at most."""
        with self._changed:
            gate = self._gates.setdefault(job, _Gate())
            (gate.copies if urgency is Urgency.COPY else gate.others).append((self._clock() + HELD_S, task))
            self._changed.notify()

    def opened(self, job: HostedJob) -> None:
        """Take note that the window of a job is open: its copies are due, even if the window closes before they are made."""
        with self._changed:
            if gate := self._gates.get(job):
                while gate.copies:
                    self._release(gate.copies, Urgency.COPY)
                self._changed.notify()

    def end(self) -> None:
        """Make `next` return None."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def next(self) -> Any:
        """Wait for the next task, and return it; None after end()."""
        with self._changed:
            while not self._ended:
                now = self._clock()
                self._collect(now)
                if self._ready:
                    return heapq.heappop(self._ready)[2]
                self._changed.wait(self._pause(now))
        return None

    def _collect(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            heapq.heappush(self._ready, heapq.heappop(self._later)[1:])
        for job, gate in list(self._gates.items()):
            while gate.copies and (job.window.is_open or gate.copies[0][0] <= now):
                self._release(gate.copies, Urgency.COPY)
            if gate.others and (job.window.is_open or gate.others[0][0] <= now) and not self._ready:
                self._release(gate.others, Urgency.PREPARE)
            if not gate.copies and not gate.others:
                del self._gates[job]

    def _release(self, tasks: deque[tuple[float, Any]], urgency: Urgency) -> None:
        heapq.heappush(self._ready, (int(urgency), next(self._order), tasks.popleft()[1]))

    def _pause(self, now: float) -> float | None:
        times = [gate[0][0] for each in self._gates.values() for gate in (each.copies, each.others) if gate]
        times += [self._later[0][0]] if self._later else []
        return max(min(times) - now, 0.0) if times else None
