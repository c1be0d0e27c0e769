"""The tensors on one aggregator, and the processor time that they leave."""

from __future__ import annotations

from typing import NamedTuple

from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.assignment.execution_cycle import TOLERANCE, loss_in, runs_in
from tiresias.services.parameter_service.assignment.job_work import JobWork


class PartOfJob:
    """The tensors of one job on one aggregator.

    Attributes:
        iteration_s: The job's iteration.
        tensors: Seconds of work of each of the tensors in an iteration.
        work_s: Their sum.
    """

    __slots__ = ("iteration_s", "tensors", "work_s")

    def __init__(self, iteration_s: float) -> None:
        self.iteration_s = iteration_s
        self.tensors: dict[str, float] = {}
        self.work_s = 0.0

    def put(self, tensor: str, work_s: float) -> None:
        """Add a tensor."""
        self.tensors[tensor] = work_s
        self.work_s += work_s

    def copy(self) -> PartOfJob:
        """Return a copy that can be changed."""
        other = PartOfJob(self.iteration_s)
        other.tensors, other.work_s = dict(self.tensors), self.work_s
        return other


class CycleEstimate(NamedTuple):
    """What an aggregator would have left for a job (lines 2 to 9 of pseudocode 3).

    Attributes:
        cycle_s: Its cycle with the job.
        free_s: Seconds of the cycle that its present tensors leave.
        runs: Iterations of the job in the cycle: a tensor needs its work that many times.
    """

    cycle_s: float
    free_s: float
    runs: int


class AggregatorLoad:
    """The load of one aggregator.

    Attributes:
        number: Its number, unique in the service.
        parts: The tensors of each job, by job.
        kept_cycle_s: The cycle is no shorter. A cycle that became shorter when a job ends could be too short for the rest, or slow
            a job down: each one runs a whole number of times. The aggregator then keeps its cycle.
    """

    __slots__ = ("_known", "kept_cycle_s", "number", "parts")

    def __init__(self, number: int) -> None:
        self.number = number
        self.parts: dict[str, PartOfJob] = {}
        self.kept_cycle_s = 0.0
        self._known: tuple[float, float] | None = None  # cycle and work, until a tensor is added or removed

    @property
    def cycle_s(self) -> float:
        """The execution cycle; 0 without tensors."""
        return self._cycle_and_work()[0]

    def _cycle_and_work(self) -> tuple[float, float]:
        if self._known is None:
            cycle_s = self._cycle()
            self._known = (cycle_s, self.work_in(cycle_s))
        return self._known

    def _cycle(self) -> float:
        return (
            max((part.iteration_s for part in self.parts.values()), default=0.0)
            if not self.kept_cycle_s
            else self.kept_cycle_s
        )

    def work_in(self, cycle_s: float) -> float:
        """Return the seconds of work of all tensors in a cycle of that length."""
        return sum(runs_in(cycle_s, part.iteration_s) * part.work_s for part in self.parts.values())

    @property
    def work_s(self) -> float:
        """Seconds of work in a cycle: W of the thesis."""
        return self._cycle_and_work()[1]

    @property
    def busy(self) -> float:
        """The share of the cycle with work; 0 without tensors."""
        cycle_s, work_s = self._cycle_and_work()
        return work_s / cycle_s if cycle_s else 0.0

    @property
    def keeps_its_cycle(self) -> bool:
        """Whether the work fits in the cycle: constraint IV.2."""
        return self.work_s <= self.cycle_s * (1 + TOLERANCE)

    def loss_of_job(self, job: str) -> float:
        """Return the loss of a job with tensors here."""
        return loss_in(self.cycle_s, self.parts[job].iteration_s)

    def estimate(self, work: JobWork, rules: AssignmentRules) -> CycleEstimate | None:
        """Return what is left for the job; None where a job, this one included, would lose too much. O(jobs here)."""
        present_s, work_s = self._cycle_and_work()
        cycle_s = max(present_s, work.iteration_s)
        if loss_in(cycle_s, work.iteration_s) >= rules.loss_limit:
            return None
        if cycle_s > present_s:  # else the present jobs have the cycle that they have now
            iterations = {part.iteration_s for part in self.parts.values()}
            if any(loss_in(cycle_s, each) >= rules.loss_limit for each in iterations):
                return None
            work_s = self.work_in(cycle_s)
        return CycleEstimate(cycle_s, cycle_s - work_s, runs_in(cycle_s, work.iteration_s))

    def put(self, work: JobWork, tensor: str) -> None:
        """Add a tensor of a job."""
        if work.job not in self.parts:
            self.parts[work.job] = PartOfJob(work.iteration_s)
        self.kept_cycle_s = max(self.kept_cycle_s, work.iteration_s) if self.kept_cycle_s else 0.0
        self.parts[work.job].put(tensor, work.tensors[tensor])
        self._known = None

    def remove(self, job: str) -> None:
        """Remove the tensors of a job. The cycle becomes shorter where the rest fits in the shorter one and no job loses more."""
        before = self.cycle_s
        if self.parts.pop(job, None) is None:
            return
        iterations = {part.iteration_s for part in self.parts.values()}
        self.kept_cycle_s, self._known = 0.0, None
        slower = any(loss_in(self.cycle_s, each) > loss_in(before, each) for each in iterations)
        if slower or not self.keeps_its_cycle:
            self.kept_cycle_s, self._known = before, None

    def keep_cycle(self, cycle_s: float) -> None:
        """Set the cycle below which it does not become shorter; 0 for none."""
        self.kept_cycle_s, self._known = cycle_s, None

    def copy(self) -> AggregatorLoad:
        """Return a copy that can be changed."""
        other = AggregatorLoad(self.number)
        other.parts = {job: part.copy() for job, part in self.parts.items()}
        other.kept_cycle_s = self.kept_cycle_s
        return other
