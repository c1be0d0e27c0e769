"""A policy between owners that share the GPUs: jobs are ordered by levels of their tags, and by the policy inside a level.

The tag of a job is what its owner used more than others, by shares, plus what the policy expects its completion to cost
(`fairness/owner_shares.py`). A job of an owner that used much more is still before a job that costs more than that: the short jobs
of all owners go before the long ones of all. But no owner gets more GPU-seconds by dividing its work: what its jobs used counts for
the next ones. A policy that expects no costs leaves the excess alone.

Jobs that go before all others because they starve do so whatever their owner used. Where a wait only lowers the cost of a job, it
lowers what its owner used by the same factor. Where no owner has an excess and the policy expects no costs, or
the column `owner_excess` is missing, the order is the policy's own.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values, known, where
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.fairness.decayed_service import last_count
from tiresias.scheduler.fairness.owner_shares import level_of
from tiresias.scheduler.model import Floats, Snapshot
from tiresias.scheduler.rank.policy import IncrementalPolicy, Policy, Ranking, Rows, replaces

_BEFORE_ALL = -1


class FairPolicy(Policy):
    """A policy that orders the jobs of one level.

    Args:
        inner: The policy.
    """

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.preempts, self.blocks, self.spares = inner.preempts, inner.blocks, inner.spares
        self.has_queues, self.refit_at, self.release_rate = inner.has_queues, inner.refit_at, inner.release_rate

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        """Return the order of the policy, sorted by level. O(jobs log jobs)."""
        found, jobs = self.inner.rank(snapshot, config), snapshot.jobs
        place = np.empty(len(jobs), np.int64)
        place[found.order] = np.arange(len(jobs))
        level = np.broadcast_to(self.level(jobs, 0.0, snapshot.time, config, found.promoted), (len(jobs),))
        return Ranking(np.lexsort((place, level)), found.queue, found.promoted)

    def level(self, jobs: Rows, cost: Values, now: float, config: PolicyConfig, promoted: Values) -> Values:
        """Return the level of each job; starving jobs go before all levels. `cost`: of its completion, GPU-seconds."""
        excess = jobs.owner_excess
        level = 0 if excess is None else level_of(known(excess, 0.0) * self.inner.discount(jobs, config) + cost)
        return where(self.inner.starves(jobs, now, config, promoted), _BEFORE_ALL, level)

    def ranks_running_first(self, config: PolicyConfig) -> bool:
        """Return what the policy does."""
        return self.inner.ranks_running_first(config)

    def starves(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> Values:
        """Return those of the policy."""
        return self.inner.starves(jobs, now, config, promoted)

    def promoted(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return those of the policy."""
        return self.inner.promoted(jobs, now, config)

    def change(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return the moment of the policy. `turn` has the moments at which levels change."""
        return self.inner.change(jobs, now, config)

    def changes(self, snapshot: Snapshot, config: PolicyConfig) -> Floats:
        """Return the moments of the policy."""
        return self.inner.changes(snapshot, config)

    def next_change(self, job: Rows, now: float, config: PolicyConfig) -> str:
        """Return the words of the policy."""
        return self.inner.next_change(job, now, config)

    def permits_preemptions(self, job: Rows, now: float, config: PolicyConfig) -> bool:
        """Return what the policy does."""
        return self.inner.permits_preemptions(job, now, config)

    def worth(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return what the policy does."""
        return self.inner.worth(jobs, now, config)

    def loss(self, jobs: Rows, backlog: float, now: float, config: PolicyConfig) -> Values:
        """Return what the policy does."""
        return self.inner.loss(jobs, backlog, now, config)

    def drains(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return those of the policy."""
        return self.inner.drains(jobs, now, config)

    def turn(self, now: float, config: PolicyConfig) -> float:
        """Return the next moment at which the service of owners is counted, or the policy's turn."""
        return min(self.inner.turn(now, config), last_count(now, config.usage_period) + config.usage_period)

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> Policy:
        """Return the fitted policy between owners."""
        return type(self)(self.inner.fitted(completed, there, cluster))

    def queue_limits(self, config: PolicyConfig) -> tuple[float, ...]:
        """Return those of the policy."""
        return self.inner.queue_limits(config)

    def first_after(self, job: Rows, config: PolicyConfig) -> float:
        """Return what the policy does: starving jobs of all owners go first."""
        return self.inner.first_after(job, config)

    def higher_after(self, job: Rows, config: PolicyConfig) -> float:
        """Return what the policy does."""
        return self.inner.higher_after(job, config)

    def standing(self, job: Rows, queue: int, now: float, config: PolicyConfig) -> str:
        """Return the words of the policy, and what the job's owner used more than others."""
        words, excess = self.inner.standing(job, queue, now, config), job.owner_excess
        if excess is None:
            return words
        owner = config.fairness.removesuffix("s")
        return f"{words}; its {owner} used {float(excess) / 3600.0:,.1f} GPU-hours more than the waiting {owner} with the least"


class FairIncrementalPolicy(FairPolicy, IncrementalPolicy):
    """The same of a policy with sort keys."""

    queue_key = 1
    inner: IncrementalPolicy
    rank = IncrementalPolicy.rank

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the level, then the keys of the policy."""
        keys = self.inner.keys(jobs, now, config, promoted)
        return self.level(jobs, self.inner.cost(keys, config), now, config, promoted), *keys

    def drifts(self, jobs: Rows, config: PolicyConfig) -> Values:
        """Return whether any running job of the policy drifts: a level may be after that of a job that does not."""
        return replaces(self.inner, "drifts")

    def settled(self, keys: tuple[Values, ...], config: PolicyConfig) -> Values:
        """Return those of the policy."""
        return self.inner.settled(keys[1:], config)


def fair(policy: Policy) -> Policy:
    """Return the policy between owners."""
    return (FairIncrementalPolicy if isinstance(policy, IncrementalPolicy) else FairPolicy)(policy)
