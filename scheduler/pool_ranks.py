"""The jobs of several pools of nodes, ranked together.

A call of numpy costs about as much for ten jobs as for a thousand, so the keys of all pools with one policy are computed and sorted
at once. The order of a pool is that of `rank` for the pool alone, because the keys of an `IncrementalPolicy` are those of each job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.counted_times import orders_count, waits_for_fewest_nodes
from tiresias.scheduler.evict.protection import is_protected
from tiresias.scheduler.known_keys import KnownKeys
from tiresias.scheduler.model import Bools, Ints, Jobs, Snapshot
from tiresias.scheduler.rank.idle_gpus import demotion_key, ranking_of
from tiresias.scheduler.rank.kept_order import KeptOrders
from tiresias.scheduler.rank.policy import IncrementalPolicy, Policy, Ranking, SortKeys
from tiresias.scheduler.table_rows import rows_of

_FEW_SHARE = 20  # the keys of fewer than one job in so many are computed sooner than compared with known ones


@dataclass(frozen=True, slots=True, eq=False)
class AlikePools:
    """Pools with one policy.

    Attributes:
        config, policy: Their policy.
        pools: Their indices.
        of_job: The jobs of these pools, shape (jobs,).
    """

    config: PolicyConfig
    policy: Policy
    pools: Ints
    of_job: Bools

    @property
    def queue_key(self) -> int:
        """Place of the queue among the keys of the policy."""
        assert isinstance(self.policy, IncrementalPolicy), "as `PoolRanks.ranked` has it"
        return self.policy.queue_key


class PooledJobs:
    """Jobs of several pools.

    Attributes:
        time: Epoch seconds.
        jobs: All jobs, as their pools see them.
        pool: Index of each job's pool, shape (jobs,); -1: it is in none.
        stages: Configuration and policy of each pool.
        as_ranked: All jobs as policies see them in whose order running jobs come first (`Policy.ranks_running_first`).
        known: Keys of the jobs at this time, as others see them; None: none are known.
        computed: The newest keys of all jobs that have been computed here.
    """

    def __init__(
        self,
        time: float,
        jobs: Jobs,
        pool: Ints,
        stages: Sequence[tuple[PolicyConfig, Policy]],
        known: KnownKeys | None = None,
        as_ranked: Jobs | None = None,
    ) -> None:
        """`as_ranked`: None: as `jobs`."""
        self.as_ranked = jobs if as_ranked is None else as_ranked
        self.time, self.jobs, self.pool, self.stages, self.known = time, jobs, pool, stages, known
        self.computed: KnownKeys | None = None

    @cached_property
    def protected(self) -> Bools:
        """The running jobs whose minimum run time is not reached, by the configurations of their pools; shape (jobs,)."""
        return self._by_stages(lambda each: is_protected(self, each.config))

    @cached_property
    def drains(self) -> Bools:
        """The jobs for which the policies of their pools keep GPUs free, shape (jobs,); those of policies with keys alone."""
        return self._by_stages(
            lambda each: _has_keys(each.policy) and each.policy.drains(self.jobs, self.time, each.config)
        )

    @cached_property
    def times_count(self) -> Bools:
        """The jobs of which service and times count otherwise than by their order and their protection, shape (jobs,)."""
        others = self._by_stages(lambda each: not orders_count(self.jobs, each.config, each.policy))
        return others | self.drains | (self.inside & waits_for_fewest_nodes(self))

    def _by_stages(self, of: Callable[[AlikePools], Bools | bool]) -> Bools:
        """Return what is found for pools with one policy, of their jobs; shape (jobs,)."""
        found = np.zeros(len(self.jobs), np.bool_)
        for each in self.alike:
            found |= each.of_job & np.asarray(of(each), np.bool_)
        return found

    def has_stages_of(self, other: PooledJobs) -> bool:
        """Return whether the pools have the configurations and the policies of others."""
        if len(self.stages) != len(other.stages):
            return False
        pairs = zip(self.stages, other.stages, strict=True)
        return all(config is before and policy is known for (config, policy), (before, known) in pairs)

    @cached_property
    def inside(self) -> Bools:
        """The jobs that are in a pool."""
        found: Bools = self.pool >= 0
        return found

    @cached_property
    def alike(self) -> tuple[AlikePools, ...]:
        """The pools with equal policies together."""
        of: dict[tuple[int, int], list[int]] = {}
        for at, (config, policy) in enumerate(self.stages):
            of.setdefault((id(config), id(policy)), []).append(at)
        if len(of) == 1:
            return (AlikePools(*self.stages[0], np.arange(len(self.stages)), self.inside),)
        return tuple(
            AlikePools(*self.stages[pools[0]], np.array(pools, np.int64), np.isin(self.pool, pools))
            for pools in of.values()
        )


class PoolRanks:
    """The orders of the pools' jobs, computed when they are first read. O(jobs log jobs).

    Attributes:
        pooled: The jobs.
        ranked: Whether the order of each pool is known, shape (pools,): its policy has keys.
    """

    def __init__(self, pooled: PooledJobs, kept: KeptOrders | None = None) -> None:
        """`kept`: the orders of the decision before."""
        self.pooled, self._kept = pooled, kept or KeptOrders()
        self.ranked: Bools = np.array([_has_keys(policy) for _, policy in pooled.stages], np.bool_)

    @cached_property
    def first(self) -> Ints:
        """Where the jobs of each pool begin in `order`, then their number, shape (pools + 1,)."""
        size = np.bincount(self.pooled.pool[self.pooled.inside], minlength=len(self.ranked))
        return np.concatenate(([0], np.cumsum(size)))

    @property
    def order(self) -> Ints:
        """The rows of the jobs pool by pool, the most urgent first. Those of a pool that is not ranked rise."""
        return self._ranks[0]

    @property
    def queue(self) -> Ints:
        """Index of each job's queue, shape (jobs,)."""
        return self._ranks[1]

    @property
    def promoted(self) -> Bools:
        """The jobs whose service and waiting time start anew, shape (jobs,)."""
        return self._ranks[2]

    @cached_property
    def rank(self) -> Ints:
        """Place of each job in the order of all pools, shape (jobs,)."""
        found = np.zeros(len(self.pooled.jobs), np.int64)
        found[self.order] = np.arange(len(self.order))
        return found

    def of(self, pool: int, rows: Ints) -> Ranking | None:
        """Return the ranking of one pool. `rows`: those of its jobs, rising. None: its policy has to rank them."""
        if not self.ranked[pool]:
            return None
        own = self.order[self.first[pool] : self.first[pool + 1]]
        return Ranking(np.searchsorted(rows, own), self.queue[rows], self.promoted[rows])

    @cached_property
    def _ranks(self) -> tuple[Ints, Ints, Bools]:
        pooled, count = self.pooled, len(self.pooled.jobs)
        order = self._by_pool if len(pooled.alike) > 1 or not self.ranked.all() else np.flatnonzero(pooled.inside)
        queue, promoted = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        for each in pooled.alike:
            if not self.ranked[each.pools[0]]:
                continue
            rows = np.flatnonzero(each.of_job)
            at = rows if len(rows) < count else slice(None)  # no copies where they are all jobs
            keys, now_promoted = _sort_keys(pooled, each, rows)
            queue[at], promoted[at] = keys[each.queue_key], now_promoted
            last = [key[at] for key in demotion_key(pooled.jobs)]
            own = self._kept.of(int(each.pools[0])).of([pooled.pool[at], *last, *keys], rows, pooled.jobs.id)
            if len(own) == len(order):
                order = own
            else:
                order[each.of_job[order]] = own
        return order, queue, promoted

    @property
    def _by_pool(self) -> Ints:
        """The rows of the jobs pool by pool, in each of them rising."""
        return np.argsort(self.pooled.pool, kind="stable")[len(self.pooled.jobs) - int(self.first[-1]) :]


def order_among(
    snapshot: Snapshot,
    chosen: Bools,
    config: PolicyConfig,
    policy: Policy,
    known: KnownKeys | None = None,
    kept: KeptOrders | None = None,
) -> Ints:
    """Return the rows of some jobs in the order in which a policy ranks them among all, the most urgent first.

    O(chosen jobs log chosen jobs), for a policy without keys O(jobs log jobs).

    Args:
        snapshot: All jobs.
        chosen: Which of them, shape (jobs,).
        config: The configuration of the policy.
        policy: The policy.
        known: Keys of the jobs.
        kept: The order of the decision before.
    """
    pool = np.where(chosen, 0, -1)
    ranks = PoolRanks(PooledJobs(snapshot.time, snapshot.jobs, pool, [(config, policy)], known), kept)
    if ranks.ranked[0]:
        return ranks.order
    order = ranking_of(policy, snapshot, config).order
    return order[chosen[order]]


def _has_keys(policy: Policy) -> bool:
    return isinstance(policy, IncrementalPolicy) and type(policy).rank is IncrementalPolicy.rank


def _sort_keys(pooled: PooledJobs, alike: AlikePools, rows: Ints) -> tuple[SortKeys, Bools]:
    """Return the keys of some of the jobs, and which are promoted. For most of them, those of all are computed."""
    policy, known = alike.policy, pooled.known
    assert isinstance(policy, IncrementalPolicy), "as `ranked` has it"
    jobs = pooled.as_ranked if policy.ranks_running_first(alike.config) else pooled.jobs
    few = len(rows) * _FEW_SHARE < len(jobs)
    if not few and known is not None and known.policy is policy and known.config == alike.config:
        return known.of(jobs, rows)
    if 2 * len(rows) < len(jobs):
        return policy.sort_keys(rows_of(jobs, rows), pooled.time, alike.config)
    keys, promoted = policy.sort_keys(jobs, pooled.time, alike.config)
    pooled.computed = KnownKeys(jobs, pooled.time, alike.config, policy, keys, promoted)
    return (keys, promoted) if len(rows) == len(jobs) else ([key[rows] for key in keys], promoted[rows])
