"""Pseudocode 3 of the thesis: a tensor goes to the aggregator on which it fits best, to a new one where it fits on none.

Two lines are corrected. Line 4 computes the slowed iteration (execution_cycle.py). Line 17 compares the free time of a cycle with
the work of a tensor in an iteration; a job that runs several times in the cycle would exceed constraint IV.2. This module compares
it with the work of all those runs. In addition the arriving job's own loss is checked, which the printed lines 3 to 8 leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.assignment.execution_cycle import TOLERANCE
from tiresias.services.parameter_service.assignment.job_work import JobWork


class TensorPlacer:
    """Puts the tensors of one job on aggregators, and changes their loads.

    Args:
        work: The job.
        rules: The limits.
        loads: The aggregators that may be used.
        add: Returns a new aggregator, None where no further one is allowed.
        fullest: The fullest aggregator on which a tensor fits is taken: the best fit. Otherwise the least full one.
        copies: Where given, loads are copied into it by number before their first change; those that are in it already are used.
    """

    def __init__(
        self,
        work: JobWork,
        rules: AssignmentRules,
        loads: Iterable[AggregatorLoad],
        add: Callable[[], AggregatorLoad | None] = lambda: None,
        fullest: bool = True,
        copies: dict[int, AggregatorLoad] | None = None,
    ) -> None:
        self._copies = copies
        self._work, self._rules, self._add, self._sign = work, rules, add, 1 if fullest else -1
        self._burst_s = rules.burst_s(work)
        self._open: list[_Candidate] = []
        for load in loads:
            self._consider(load)

    def put_all(self, tensors: Iterable[str]) -> bool:
        """Put all these tensors in their order; return False at the first that fits nowhere. O(tensors x aggregators)."""
        return all(self._put(tensor) for tensor in tensors)

    def _put(self, tensor: str) -> bool:
        work_s = self._work.tensors[tensor]
        fitting = [each for each in self._open if each.fits(work_s, self._burst_s)]
        if not fitting:
            added = self._add()
            if added is None or not self._consider(added) or not self._open[-1].fits(work_s, self._burst_s):
                return False
            fitting = [self._open[-1]]
        best = min(fitting, key=lambda each: (self._sign * each.free_s, each.load.number))
        if self._copies is not None and best.load.number not in self._copies:
            best.load = self._copies[best.load.number] = best.load.copy()
        best.put(self._work, tensor)
        return True

    def _consider(self, load: AggregatorLoad) -> bool:
        load = (self._copies or {}).get(load.number, load)
        estimate = load.estimate(self._work, self._rules)
        if estimate is not None:
            part = load.parts.get(self._work.job)
            self._open.append(
                _Candidate(load, estimate.cycle_s, estimate.free_s, estimate.runs, part.work_s if part else 0.0)
            )
        return estimate is not None


class _Candidate:
    """An aggregator that the job may use, with what it has left."""

    __slots__ = ("_cycle_s", "_here_s", "_runs", "free_s", "load")

    def __init__(self, load: AggregatorLoad, cycle_s: float, free_s: float, runs: int, here_s: float) -> None:
        self.load, self.free_s, self._runs, self._here_s = load, free_s, runs, here_s
        self._cycle_s = cycle_s

    def fits(self, work_s: float, burst_s: float) -> bool:
        """Whether a tensor of that work fits in the free time and in the job's burst."""
        return self._runs * work_s <= self.free_s + TOLERANCE * self._cycle_s and self._here_s + work_s <= burst_s

    def put(self, work: JobWork, tensor: str) -> None:
        self.load.put(work, tensor)
        self.free_s -= self._runs * work.tensors[tensor]
        self._here_s += work.tensors[tensor]
