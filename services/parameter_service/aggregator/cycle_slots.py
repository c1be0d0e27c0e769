"""The execution cycle of an aggregator as it runs: which job may begin a step now (AutoPS, section 4.3.3.2).

A cycle of C seconds has a slot for each run of a job in it: a job that runs n times has one in each C / n seconds. A step that
finds its slot unused begins at once. Any other one is late, or comes too early: it begins if the rest of the cycle has the time for
it beside the slots that are not used yet, else in the job's next slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tiresias.services.parameter_service.assignment.late_request import fits_in_cycle

MAX_CYCLE_S = 30.0  # a longer cycle is not enforced: a step would wait too long


class JobSlots(NamedTuple):
    """The slots of a job in a cycle.

    Attributes:
        runs: How often it runs in the cycle, 1 or more.
        work_s: Seconds of processor time of its tensors here in a run.
    """

    runs: int
    work_s: float


class CycleSlots:
    """The slots of the present cycle. Times are seconds of one clock."""

    def __init__(self) -> None:
        self.cycle_s = 0.0
        self.slots: dict[str, JobSlots] = {}
        self._begun_at = 0.0
        self._used: dict[str, int] = {}
        self._running: set[str] = set()

    def plan(self, cycle_s: float, slots: Mapping[str, JobSlots], now: float) -> None:
        """Begin a cycle of another length or with other jobs; without jobs every step begins at once."""
        self.cycle_s, self.slots = cycle_s, dict(slots)
        self._begun_at, self._used = now, {}
        self._running &= slots.keys()

    def may_begin(self, job: str, now: float) -> bool:
        """Return whether a job may begin a step."""
        slots = self.slots.get(job)
        if slots is None or not 0 < self.cycle_s <= MAX_CYCLE_S:
            return True
        self._advance(now)
        elapsed_s = now - self._begun_at
        passed = min(int(elapsed_s / self.cycle_s * slots.runs) + 1, slots.runs)
        if self._used.get(job, 0) < passed:
            return True
        others = sum(self._left(other) * each.work_s for other, each in self.slots.items() if other != job)
        own = (slots.runs - passed) * slots.work_s
        return fits_in_cycle(self.cycle_s, elapsed_s, others + own, slots.work_s)

    def began(self, job: str, now: float) -> None:
        """Take note that a job has begun a step."""
        if job in self.slots:
            self._advance(now)
            self._used[job] = self._used.get(job, 0) + 1
            self._running.add(job)

    def ended(self, job: str) -> None:
        """Take note that the step of a job is complete."""
        self._running.discard(job)

    def next_slot_s(self, now: float) -> float:
        """Return the seconds until the next slot of any job; infinite without a plan."""
        lengths = [self.cycle_s / each.runs for each in self.slots.values() if self.cycle_s > 0]
        return min((length - (now - self._begun_at) % length for length in lengths), default=float("inf"))

    def _left(self, job: str) -> int:
        return max(self.slots[job].runs - self._used.get(job, 0), 0) + (job in self._running)

    def _advance(self, now: float) -> None:
        passed = int((now - self._begun_at) / self.cycle_s) if self.cycle_s > 0 else 0
        if passed:
            self._begun_at += passed * self.cycle_s
            self._used.clear()
