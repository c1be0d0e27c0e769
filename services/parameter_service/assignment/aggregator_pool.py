"""The aggregators of one cluster and the jobs on them: arrival, end, revert and scaling (AutoPS, sections 4.3.3.2 and 4.3.3.3).

    pool = AggregatorPool(AssignmentRules(), most=8)
    pool.arrive(work)            # raises AssignmentRefused and changes nothing where the job cannot be assigned
    pool.revert(work.job)        # measured loss: the job is assigned anew with one aggregator more of its own
    pool.end(work.job)
    pool.scale()                 # empties what can be emptied; returns the aggregators that were released
    pool.assignment()            # (job, tensor) -> number of an aggregator

Each operation leaves every aggregator within its cycle and every job below the loss limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad
from tiresias.services.parameter_service.assignment.aggregator_numbers import TensorKey, renumbered
from tiresias.services.parameter_service.assignment.assignment_rules import (
    AssignmentRules,
    JobTooLarge,
    NoAggregatorLeft,
)
from tiresias.services.parameter_service.assignment.best_fit import TensorPlacer
from tiresias.services.parameter_service.assignment.evacuation import evacuated
from tiresias.services.parameter_service.assignment.job_work import JobWork
from tiresias.services.parameter_service.assignment.repacking import emptied, repacked


class AggregatorPool:
    """The aggregators of one cluster.

    Args:
        rules: The limits of each assignment.
        most: The budget: the most aggregators at any time.
        first: The number of the first aggregator; numbers are not used again.

    Attributes:
        loads: The allocated aggregators by number; those without tensors are spare until `scale`.
        jobs: The jobs by name.
    """

    def __init__(self, rules: AssignmentRules, most: int, first: int = 0) -> None:
        self.rules, self.most = rules, most
        self.loads: dict[int, AggregatorLoad] = {}
        self.jobs: dict[str, JobWork] = {}
        self.preferred: list[int] = []  # numbers that new aggregators get first
        self._next = first
        # of reverted jobs; no other job gets these aggregators
        self._own: dict[str, frozenset[int]] = {}

    # what is where

    def assignment(self) -> dict[TensorKey, int]:
        """Return the aggregator of each tensor."""
        return {
            (job, tensor): number
            for number, load in self.loads.items()
            for job, part in load.parts.items()
            for tensor in part.tensors
        }

    def loss(self, job: str) -> float:
        """Return the expected loss of a job: the largest on its aggregators."""
        return max((load.loss_of_job(job) for load in self.loads.values() if job in load.parts), default=0.0)

    @property
    def free(self) -> float:
        """What is idle, in aggregators; what the budget still allows is not counted."""
        return sum(1.0 - load.busy for load in self.loads.values())

    @property
    def left(self) -> int:
        """Aggregators that may still be used: spare ones and those that the budget allows."""
        return self.most - sum(bool(load.parts) for load in self.loads.values())

    def number_from(self, first: int) -> None:
        """New aggregators get this number and higher ones."""
        self._next = max(self._next, first)

    def places_of(self, job: str) -> dict[str, int]:
        """Return the aggregator of each tensor of one job."""
        parts = [(number, load.parts[job]) for number, load in self.loads.items() if job in load.parts]
        return {tensor: number for number, part in parts for tensor in part.tensors}

    def stored(self) -> dict[str, Any]:
        """Return what `restored` needs besides the jobs, as a JSON object."""
        loads = {
            str(number): [load.kept_cycle_s, {job: list(part.tensors) for job, part in load.parts.items()}]
            for number, load in self.loads.items()
        }
        return {"loads": loads, "own": {job: sorted(numbers) for job, numbers in self._own.items()}}

    @classmethod
    def restored(cls, rules: AssignmentRules, content: dict[str, Any], jobs: Mapping[str, JobWork]) -> AggregatorPool:
        """Return the pool of a stored object; `jobs` has at least its jobs."""
        pool = cls(rules, 0)
        for number, (kept_cycle_s, parts) in content["loads"].items():
            load = pool.loads[int(number)] = AggregatorLoad(int(number))
            for job, tensors in parts.items():
                pool.jobs[job] = jobs[job]
                for tensor in tensors:
                    load.put(jobs[job], tensor)
            load.keep_cycle(kept_cycle_s)
        pool._own = {job: frozenset(numbers) for job, numbers in content["own"].items()}
        pool._next = max([0, *(number + 1 for number in pool.loads)])
        return pool

    # jobs

    def arrive(self, work: JobWork, repack: bool = True) -> None:
        """Assign all tensors of a new job, with as few new aggregators as pseudocode 3 needs and never more than its servers.

        Args:
            work: The job.
            repack: Where the budget does not suffice, all jobs are packed anew, if that leaves enough.

        Raises:
            NoAggregatorLeft: Not now.
            JobTooLarge: It would not fit on as many aggregators of its own as it declared servers.
        """
        if work.job in self.jobs:
            raise ValueError(f"job {work.job} is assigned already")
        if self._put(work, self._used(), most_new=work.servers) or self._put(work, [], work.servers, fullest=False):
            self.jobs[work.job] = work
        elif not self._fits_alone(work):
            raise JobTooLarge(
                f"job {work.job}: its tensors do not fit on {work.servers} aggregators, its declared servers"
            )
        elif not (repack and self._repack_with(work)):
            raise NoAggregatorLeft(f"job {work.job} needs more aggregators than the budget of {self.most} has left")

    def keep_places(self, job: str, placed: Mapping[str, int]) -> None:
        """Exchange the numbers of the aggregators that a new job has alone, so that most of its tensors stay where they are.

        Args:
            job: Its name.
            placed: The aggregator that has each tensor now; numbers that no other job uses.
        """
        alone = [load for load in self.loads.values() if set(load.parts) == {job} and load.number in placed.values()]
        before = {number: AggregatorLoad(number) for number in sorted(load.number for load in alone)}
        for tensor, number in placed.items():
            if number in before:
                before[number].put(self.jobs[job], tensor)
        for load in alone:
            del self.loads[load.number]
        self.loads.update((load.number, load) for load in renumbered(alone, list(before.values())))

    def end(self, job: str) -> None:
        """Remove a job. Its aggregators stay allocated until `scale`."""
        del self.jobs[job]
        self._own.pop(job, None)
        self._remove(job)

    def vacate(self, number: int, usable: Collection[int]) -> bool:
        """Move everything from an aggregator to others of these numbers and release it; return False where there is none."""
        others = [load for each, load in self.loads.items() if each in usable and each != number]
        found = evacuated(self.loads[number], others, self.jobs, self.rules)
        if found is None:
            return False
        del self.loads[number]
        self.loads.update((load.number, load) for load in found)
        self._own = {job: own - {number} for job, own in self._own.items()}
        return True

    def replace(self, number: int, new: int) -> None:
        """Give an aggregator with its tensors another number, that of a new one."""
        load = self.loads.pop(number)
        load.number = new
        self.loads[new] = load
        self._own = {job: frozenset(new if each == number else each for each in own) for job, own in self._own.items()}

    def take_over(self, other: AggregatorPool) -> None:
        """Take all aggregators and jobs of another cluster."""
        self.loads.update(other.loads)
        self.jobs.update(other.jobs)
        self._own.update(other._own)

    def revert(self, job: str) -> None:
        """Assign a job anew, on one aggregator more of its own and on the least busy ones: on its declared servers at most.

        Where each of its servers is an aggregator of its own, the job has what it was profiled with. Raises NoAggregatorLeft, and
        changes nothing, where the budget is used up or the job has that already.
        """
        work, before, own_before = self.jobs[job], dict(self.loads), self._own.pop(job, frozenset())
        self.loads = {number: load.copy() for number, load in self.loads.items()}
        self._remove(job)
        for own in range(len(own_before) + 1, work.servers + 1):
            others = sorted(self._used(), key=lambda load: (load.busy, load.number))
            others = [load for load in others if load.estimate(work, self.rules)][: work.servers - own]
            if own <= self.left and (added := self._put_spread(work, others, own)):
                self._own[job] = added
                return
        self.loads = before
        if own_before:
            self._own[job] = own_before
        raise NoAggregatorLeft(f"job {job} loses speed, and no further aggregator is left for it")

    # scaling

    def scale(self, repack: bool = True) -> list[int]:
        """Empty and release what can be; return the released aggregators.

        Args:
            repack: Try to empty each aggregator, and pack all jobs anew where that needs fewer aggregators still, which moves many
                tensors; otherwise end at the first aggregator that cannot be emptied, as the thesis does. A reverted job, and each
                aggregator that it uses, stays as it is.
        """
        before, fixed = set(self.loads), self._fixed()
        movable = [load for load in self._used() if load.number not in fixed]
        kept = emptied(movable, self.jobs, self.rules, None if repack else 1)
        if repack:
            kept = self._packed_anew(kept)
        self.loads = {load.number: load for load in [*kept, *(self.loads[number] for number in fixed)]}
        return sorted(before - set(self.loads))

    def _packed_anew(self, loads: list[AggregatorLoad]) -> list[AggregatorLoad]:
        movable = {job: self.jobs[job] for load in loads for job in load.parts if self._lies_within(job, loads)}
        others = any(job not in movable for load in loads for job in load.parts)
        found = None if others else repacked(movable, self.rules)
        return renumbered(found, loads) if found is not None and len(found) < len(loads) else loads

    def _lies_within(self, job: str, loads: Iterable[AggregatorLoad]) -> bool:
        return sum(len(load.parts[job].tensors) for load in loads if job in load.parts) == len(self.jobs[job].tensors)

    def _fixed(self) -> set[int]:
        return {number for number, load in self.loads.items() if any(job in self._own for job in load.parts)}

    # inner

    def _used(self) -> list[AggregatorLoad]:
        """The aggregators with tensors that any job may use."""
        own = frozenset().union(*self._own.values())
        return [load for number, load in self.loads.items() if load.parts and number not in own]

    def _remove(self, job: str) -> None:
        for load in self.loads.values():
            load.remove(job)

    def _put(self, work: JobWork, loads: Iterable[AggregatorLoad], most_new: int, fullest: bool = True) -> bool:
        """Assign the job, or change nothing."""
        trial, new = _Trial(self, most_new), [load.copy() for load in loads]
        if not fullest:
            new += iter(trial.add, None)
        if not TensorPlacer(work, self.rules, new, trial.add, fullest).put_all(work.by_work):
            return False
        self._take(load for load in [*new, *trial.added] if work.job in load.parts)
        return True

    def _put_spread(self, work: JobWork, others: Sequence[AggregatorLoad], own: int) -> frozenset[int]:
        """Assign the job to these aggregators and to `own` new ones, evenly; return the new ones, none where it does not fit."""
        trial = _Trial(self, own)
        loads = [*(load.copy() for load in others), *iter(trial.add, None)]
        fits = TensorPlacer(work, self.rules, loads, fullest=False).put_all(work.by_work)
        used = frozenset(load.number for load in trial.added if work.job in load.parts)
        if fits and used:
            self._take(load for load in loads if work.job in load.parts)
        return used if fits else frozenset()

    def _take(self, loads: Iterable[AggregatorLoad]) -> None:
        for load in loads:
            self.loads[load.number] = load
            self._next = max(self._next, load.number + 1)

    def _fits_alone(self, work: JobWork) -> bool:
        alone = AggregatorPool(self.rules, work.servers)
        return alone._put(work, [], work.servers) or alone._put(work, [], work.servers, fullest=False)

    def _repack_with(self, work: JobWork) -> bool:
        if self._own:
            return False  # a reverted job is not packed again
        found = repacked({**self.jobs, work.job: work}, self.rules)
        if found is None or len(found) > self.most or len(found) > len(self._used()) + work.servers:
            return False
        self.jobs[work.job] = work
        spare = [load for load in self.loads.values() if not load.parts]
        self.loads = {load.number: load for load in renumbered(found, [*self._used(), *spare], self._next)}
        self._next = max([self._next, *(number + 1 for number in self.loads)])
        return True


class _Trial:
    """Aggregators that an assignment may add: spare ones first. They join the pool when the assignment succeeds."""

    def __init__(self, pool: AggregatorPool, most_new: int) -> None:
        spare = sorted(number for number, load in pool.loads.items() if not load.parts)
        fresh = range(pool._next, pool._next + max(pool.most - len(pool.loads), 0))
        new = [*(number for number in pool.preferred if number not in pool.loads), *fresh][: len(fresh)]
        self._numbers = iter([*spare, *new][: max(most_new, 0)])
        self.added: list[AggregatorLoad] = []

    def add(self) -> AggregatorLoad | None:
        number = next(self._numbers, None)
        if number is None:
            return None
        self.added.append(AggregatorLoad(number))
        return self.added[-1]
