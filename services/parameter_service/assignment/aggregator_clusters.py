"""Several independent clusters of aggregators: a job lies within one, so that one arrival looks at few aggregators (AutoPS, section
4.3.3.4), and the hybrid scaling of all of them.

Aggregators are released at the end of each scaling period only: a job that ends leaves spare ones until then. An arrival that the
allocated ones cannot hold gets new ones at once, as many as the budget of all clusters allows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad
from tiresias.services.parameter_service.assignment.aggregator_numbers import TensorKey
from tiresias.services.parameter_service.assignment.aggregator_pool import AggregatorPool
from tiresias.services.parameter_service.assignment.assignment_rules import (
    AssignmentRefused,
    AssignmentRules,
    NoAggregatorLeft,
)
from tiresias.services.parameter_service.assignment.job_work import JobWork

CLUSTER_SIZE = 32  # aggregators of a cluster at most, except for a job that declared more servers
PERIOD_S = 600.0  # between two scalings


class AggregatorClusters:
    """All aggregators of the service.

    Args:
        rules: The limits of each assignment.
        budget: The most aggregators of all clusters together.
        size: The most aggregators of one cluster.
        period_s: Seconds between two scalings; 0: each end of a job is followed by one.
        repack: A scaling may pack all jobs of a cluster anew; otherwise it empties single aggregators, as the thesis does.
    """

    def __init__(
        self,
        rules: AssignmentRules,
        budget: int,
        size: int = CLUSTER_SIZE,
        period_s: float = PERIOD_S,
        repack: bool = True,
    ) -> None:
        self.rules, self.budget, self.size, self.period_s, self.repack = rules, budget, size, period_s, repack
        self._pools: dict[int, AggregatorPool] = {}  # by cluster number
        self._cluster_of: dict[str, int] = {}
        self._next_cluster = 0
        self._next_scaling_s = period_s
        self._first = 0  # number of the next new aggregator
        self._reserved: dict[str, tuple[int, ...]] = {}  # aggregators of jobs that are profiled
        self._changed: set[int] = set()  # clusters with arrivals or ends since their last scaling

    # what is where

    @property
    def allocated(self) -> int:
        """Aggregators of all clusters, spare and reserved ones included."""
        return sum(len(pool.loads) for pool in self._pools.values()) + sum(map(len, self._reserved.values()))

    @property
    def left(self) -> int:
        """Aggregators that a profile may use: spare ones, and those that the budget still allows."""
        return self.budget - self.allocated + len(self._spare())

    def _spare(self) -> list[int]:
        return sorted(number for pool in self._pools.values() for number, load in pool.loads.items() if not load.parts)

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the allocated aggregators."""
        reserved = (number for numbers in self._reserved.values() for number in numbers)
        return frozenset(number for pool in self._pools.values() for number in pool.loads).union(reserved)

    @property
    def jobs(self) -> dict[str, JobWork]:
        """The assigned jobs."""
        return {job: work for pool in self._pools.values() for job, work in pool.jobs.items()}

    @property
    def loads(self) -> dict[int, AggregatorLoad]:
        """The aggregators with their tensors, by number; without those that are reserved for profiles."""
        return {number: load for pool in self._pools.values() for number, load in pool.loads.items()}

    def assignment(self) -> dict[TensorKey, int]:
        """Return the aggregator of each tensor."""
        return {key: number for pool in self._pools.values() for key, number in pool.assignment().items()}

    def pool_of(self, job: str) -> AggregatorPool:
        """Return the cluster of a job. Raises KeyError."""
        return self._pools[self._cluster_of[job]]

    # events

    def reserve(self, job: str, count: int) -> tuple[int, ...]:
        """Allocate aggregators for the profile of a job, spare ones first; its arrival releases them. Raises NoAggregatorLeft."""
        if self.left < count:
            raise NoAggregatorLeft(
                f"job {job}: its profile needs {count} aggregators, {max(self.left, 0)} of {self.budget} are left"
            )
        spare = self._spare()[:count]
        for pool in self._pools.values():
            pool.loads = {number: load for number, load in pool.loads.items() if number not in spare}
        self._end_empty()
        self._reserved[job] = (*spare, *range(self._first, self._first + count - len(spare)))
        self._first += count - len(spare)
        return self._reserved[job]

    def reserved(self, job: str) -> tuple[int, ...]:
        """Return the aggregators of a job that is profiled."""
        return self._reserved.get(job, ())

    def arrive(self, work: JobWork, placed: Mapping[str, int] | None = None) -> None:
        """Assign a job. Where it needs new aggregators, it gets those of its profile first.

        Args:
            work: The job.
            placed: The aggregator of each tensor while it was profiled.

        Raises:
            NoAggregatorLeft: Not now: no cluster can take the job within the budget.
            JobTooLarge: Never.
        """
        reserved = self._reserved.pop(work.job, ())
        try:
            self._arrive(work, reserved)
        except AssignmentRefused:
            if reserved:
                self._reserved[work.job] = reserved
            raise
        if placed:
            self.pool_of(work.job).keep_places(work.job, placed)

    def _arrive(self, work: JobWork, reserved: tuple[int, ...]) -> None:
        """Assign a job in the cluster that fits best: the one with sufficient and the least idle time. Where none has enough, the
        one that needs the fewest new aggregators, or a new cluster.

        Raises:
            NoAggregatorLeft: Not now: no cluster can take the job within the budget.
            JobTooLarge: Never.
        """
        if work.job in self._cluster_of:
            raise ValueError(f"job {work.job} is assigned already")
        refused: AssignmentRefused = NoAggregatorLeft(f"job {work.job}: the budget has no aggregator")
        tried = self._by_fit(work)
        for number, repack in [
            *((each, False) for each in tried),
            (self._next_cluster, False),
            *((each, True) for each in tried),
        ]:
            try:
                self._arrive_in(number, work, repack, reserved)
            except NoAggregatorLeft as error:
                refused = error
            else:
                return
        raise refused

    def end(self, job: str) -> None:
        """Remove a job; its aggregators stay allocated until the next scaling."""
        if self._reserved.pop(job, None) is not None:
            return
        number = self._cluster_of.pop(job)
        self._pools[number].end(job)
        self._changed.add(number)
        if not self.period_s:
            self.scale()

    def add(self, work: JobWork, tensors: Iterable[str]) -> None:
        """Put further tensors of an assigned job on the least busy of its aggregators; all others stay where they are.

        Args:
            work: The job, with these tensors.
            tensors: The further ones. Where they exceed a cycle, the measured loss reverts the assignment.
        """
        pool = self.pool_of(work.job)
        pool.jobs[work.job] = work
        for tensor in tensors:
            loads = [load for load in pool.loads.values() if work.job in load.parts]
            min(loads, key=lambda load: (load.busy, load.number)).put(work, tensor)

    def revert(self, job: str) -> None:
        """Assign a job anew with one aggregator more of its own. Raises NoAggregatorLeft, and changes nothing."""
        self._within_budget(self.pool_of(job), lambda pool: pool.revert(job), self.pool_of(job).jobs[job].servers)

    def vacate(self, number: int, usable: Collection[int]) -> bool:
        """Move the tensors of assigned jobs from an aggregator that ends to others, else to a new one within the budget.

        Args:
            number: The aggregator.
            usable: The aggregators that run and do not end.

        Returns:
            Whether nothing is assigned to it any more.
        """
        cluster = next((each for each, pool in self._pools.items() if number in pool.loads), None)
        if cluster is None:
            return True
        if not self._has_other(cluster, number, usable):
            self._join(cluster, usable)
        if self._pools[cluster].vacate(number, usable):
            self._end_empty()
            return True
        if self.allocated >= self.budget:
            return False  # one more would exceed the budget
        self._pools[cluster].replace(number, self._first)
        self._first += 1
        return True

    def renumber_reserved(self, job: str, number: int) -> int | None:
        """Exchange an aggregator of a profile for a new one; return its number, None where the budget has none left."""
        if self.allocated >= self.budget:
            return None
        self._reserved[job] = (*(each for each in self._reserved[job] if each != number), self._first)
        self._first += 1
        return self._first - 1

    def drop_reserved(self, job: str, number: int) -> None:
        """Remove an aggregator from those of a profile."""
        self._reserved[job] = tuple(each for each in self._reserved[job] if each != number)

    def _has_other(self, cluster: int, number: int, usable: Collection[int]) -> bool:
        return any(each in usable and each != number for each in self._pools[cluster].loads)

    def _join(self, cluster: int, usable: Collection[int]) -> None:
        """Join another cluster that has an usable aggregator, the one with the most idle time, into this one."""
        others = [each for each, pool in self._pools.items() if each != cluster and pool.loads.keys() & set(usable)]
        if others:
            other = max(others, key=lambda each: self._pools[each].free)
            self._pools[cluster].take_over(self._pools.pop(other))
            self._cluster_of = {job: cluster if at == other else at for job, at in self._cluster_of.items()}
            self._changed.add(cluster)
            self._changed.discard(other)

    def scale_if_due(self, now_s: float) -> list[int]:
        """Scale all clusters if a period has passed; return the released aggregators.

        Args:
            now_s: Seconds since the service began.
        """
        if not self.period_s or now_s < self._next_scaling_s:
            return []
        self._next_scaling_s = (now_s // self.period_s + 1) * self.period_s
        return self.scale()

    def scale(self) -> list[int]:
        """Empty and release aggregators in all clusters; return the released ones. Clusters without aggregators end."""
        released = [number for cluster in sorted(self._changed) for number in self._pools[cluster].scale(self.repack)]
        self._changed.clear()
        self._end_empty()
        return released

    def _end_empty(self) -> None:
        self._pools = {number: pool for number, pool in self._pools.items() if pool.loads}
        self._changed &= self._pools.keys()

    # storage

    def stored(self) -> dict[str, Any]:
        """Return a JSON object for `restore`: where the tensors are; the profiles of the jobs are stored by the caller."""
        pools = {str(number): pool.stored() for number, pool in self._pools.items()}
        reserved = {job: list(numbers) for job, numbers in self._reserved.items()}
        return {"pools": pools, "reserved": reserved, "first": self._first, "next_cluster": self._next_cluster}

    def restore(self, content: dict[str, Any], jobs: Mapping[str, JobWork]) -> None:
        """Take over a stored state."""
        pools = content["pools"].items()
        self._pools = {int(number): AggregatorPool.restored(self.rules, each, jobs) for number, each in pools}
        self._cluster_of = {job: number for number, pool in self._pools.items() for job in pool.jobs}
        self._reserved = {job: tuple(numbers) for job, numbers in content["reserved"].items()}
        self._first, self._next_cluster = content["first"], content["next_cluster"]
        self._changed = set(self._pools)

    # inner

    def _by_fit(self, work: JobWork) -> list[int]:
        """The clusters in the order in which they are tried."""

        def key(number: int) -> tuple[bool, float, int]:
            short = work.aggregators - self._pools[number].free
            return (short > 0, short if short > 0 else -short, number)

        return sorted(self._pools, key=key)

    def _arrive_in(self, number: int, work: JobWork, repack: bool, reserved: tuple[int, ...]) -> None:
        pool = self._pools.get(number) or AggregatorPool(self.rules, 0)
        pool.preferred = list(reserved)
        try:
            self._within_budget(pool, lambda chosen: chosen.arrive(work, repack), work.servers)
        finally:
            pool.preferred = []
        self._pools[number], self._cluster_of[work.job] = pool, number
        self._changed.add(number)
        self._next_cluster = max(self._next_cluster, number + 1)

    def _within_budget(self, pool: AggregatorPool, operation: Callable[[AggregatorPool], None], servers: int) -> None:
        """Run an operation of a cluster that may add aggregators, within the budget and with numbers that no other one has."""
        left = self.budget - self.allocated
        pool.most = min(len(pool.loads) + left, max(self.size, servers, len(pool.loads)))
        pool.number_from(self._first)
        operation(pool)
        self._first = max([self._first, *(number + 1 for number in pool.loads)])
