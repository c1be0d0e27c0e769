"""The decisions on several pools of jobs and nodes, each with an order of its own.

The pools are ranked together (`pool_ranks.py`), and `decide` is called for those in which a job may start (`idle_pools.py`). Where
nothing has changed that counts, the plan is that of the decision before (`kept_plans.py`). Where only times differ and none of them
counts, no pool is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.idle_pools import IdlePools, KnownPools, PooledGpus, idle_plan, idle_pools
from tiresias.scheduler.job_rows import JobRows
from tiresias.scheduler.kept_plans import KeptPlans
from tiresias.scheduler.model import Bools, Ints, Plan, Quota, Snapshot
from tiresias.scheduler.pool_ranks import PooledJobs, PoolRanks
from tiresias.scheduler.rank.kept_order import KeptOrders
from tiresias.scheduler.rank.policy import Policy, Ranking
from tiresias.scheduler.rank.standing import Standing
from tiresias.scheduler.reason_codes import Reason
from tiresias.scheduler.reasons import BLOCKED
from tiresias.scheduler.unchanged_pools import UnchangedPools, pools_with_other_ranks


@dataclass(frozen=True, slots=True, eq=False)
class NodePool:
    """Jobs and nodes under one policy.

    Attributes:
        jobs, nodes: rows of the whole snapshot, rising; shape (jobs of the pool,) and (nodes of the pool,).
        queues_before: queues of other pools, which are counted first where a queue is named.
        note: added to the text of each job's rank, such as why another policy than the configured one ranks.
    """

    jobs: Ints
    nodes: Ints
    config: PolicyConfig
    policy: Policy
    queues_before: int = 0
    note: str = ""


@dataclass(frozen=True, eq=False)
class PoolDecision:
    """A pool's own snapshot, and what is decided there; their rows are those of `pool.jobs` and `pool.nodes`."""

    pool: NodePool
    snapshot: Snapshot
    plan: Plan

    def row(self, whole: int) -> int:
        """The row here of a job that the whole snapshot has in row `whole`."""
        return int(np.searchsorted(self.pool.jobs, whole))

    def has(self, whole: int) -> bool:
        """Return whether the pool has the job that the whole snapshot has in row `whole`."""
        row = self.row(whole)
        return row < len(self.pool.jobs) and bool(self.pool.jobs[row] == whole)


class IdlePool(PoolDecision):
    """The decision on a pool in which no job can start. Its snapshot and its plan are made when they are first read."""

    def __init__(self, pool: NodePool, seen: Callable[[], Snapshot], ranking: Callable[[], Ranking | None]) -> None:
        """`seen`: returns the snapshot of the pool. `ranking`: returns the order of its jobs, which is known."""
        object.__setattr__(self, "pool", pool)
        self._seen, self._ranking = seen, ranking

    @cached_property
    def snapshot(self) -> Snapshot:
        """The pool's own snapshot."""
        return self._seen()

    @cached_property
    def plan(self) -> Plan:
        """The plan, in which nothing happens."""
        ranking = self._ranking()
        assert ranking, "an idle pool is ranked"
        plan = idle_plan(self.snapshot, self.pool.config, self.pool.policy, ranking)
        return numbered(plan, self.snapshot, self.pool)


class KeptPool(PoolDecision):
    """The decision on a pool that was decided on as now before. Its snapshot is made when it is first read."""

    def __init__(self, pool: NodePool, seen: Callable[[], Snapshot], plan: Plan) -> None:
        """`seen`: returns the snapshot of the pool. `plan`: the plan, as `numbered`."""
        object.__setattr__(self, "pool", pool)
        object.__setattr__(self, "plan", replace(plan, standing=self))
        self._seen = seen

    @cached_property
    def snapshot(self) -> Snapshot:
        """The pool's own snapshot."""
        return self._seen()

    def of(self, row: int) -> str:
        """Return why a job has its rank, in words."""
        return self._standing.of(row)

    @cached_property
    def _standing(self) -> Standing:
        return _standing(self.plan, self.snapshot, self.pool)


@dataclass(frozen=True, slots=True, eq=False)
class PoolDecisions:
    """The decisions on several pools, none of which shares a job with another one.

    Attributes:
        parts: One for each pool.
        ranks: The orders of those of which these are known.
        blocked: Rows of the jobs of idle pools that wait because no job overtakes the first waiting one.
        quotas: What the jobs of the pools leave of Slurm's limits.
        kept: Whether they are those that were made before.
    """

    parts: tuple[PoolDecision, ...]
    ranks: PoolRanks
    blocked: Ints
    quotas: tuple[Quota, ...]
    kept: bool = False

    @property
    def busy(self) -> Iterator[PoolDecision]:
        """The pools in which a job may start or be preempted."""
        return (part for part in self.parts if not isinstance(part, IdlePool))

    def order(self) -> tuple[Ints, Ints]:
        """Return queue and rank of each job, shape (jobs,); 0 for a job of no pool. Ranks count through, pool by pool."""
        queue, rank = self.ranks.queue.copy(), self.ranks.rank.copy()
        for part, first, known in zip(self.parts, self.ranks.first.tolist(), self.ranks.ranked.tolist(), strict=False):
            if not known:
                queue[part.pool.jobs], rank[part.pool.jobs] = part.plan.queue, part.plan.rank + first
        return queue, rank

    def why(self) -> dict[int, Reason]:
        """Return the reasons of all pools, by row of the whole snapshot."""
        found = dict.fromkeys(self.blocked.tolist(), BLOCKED)
        for part in self.busy:
            found |= {int(part.pool.jobs[row]): reason for row, reason in part.plan.why.items()}
        return found

    def promoted(self, ids: Sequence[str]) -> Iterator[str]:
        """Yield the ids of the promoted jobs, pool by pool. `ids`: of all jobs of the whole snapshot."""
        for part, known in zip(self.parts, self.ranks.ranked.tolist(), strict=True):
            if known:
                rows = part.pool.jobs
                yield from (ids[row] for row in rows[self.ranks.promoted[rows]].tolist())
            else:
                yield from part.plan.promoted


def decide_each(
    pooled: PooledJobs,
    pools: Sequence[NodePool],
    gpus_of: Callable[[], PooledGpus],
    quotas: tuple[Quota, ...],
    seen: Callable[[int, tuple[Quota, ...]], Snapshot],
    kept: KeptDecisions | None = None,
    only_times_differ: bool = False,
    unchanged: Callable[[PooledJobs], UnchangedPools | None] | None = None,
    expect: Callable[[Sequence[int]], object] | None = None,
) -> PoolDecisions:
    """Decide on each pool in turn.

    O(jobs log jobs + allocations), and what `decide` takes for each pool in which a job may start.

    Args:
        pooled: The jobs of all pools, as these see them.
        pools: The pools.
        gpus_of: Returns their GPUs. Called where jobs wait.
        quotas: Slurm's limits. What a pool leaves of them is left to the next one.
        seen: Returns the snapshot that a pool sees, from its index and what is left of the limits.
        kept: What was decided before; None: nothing was.
        only_times_differ: Whether all that the pools see is what they saw then but for service and times, and there are no limits.
        unchanged: Returns the pools of which this holds; None: it is not known.
        expect: Called with the indices of the pools whose snapshots are needed.
    """
    kept = kept or KeptDecisions()
    ranks = PoolRanks(pooled, kept.orders)
    if only_times_differ and (again := kept.again(ranks, pools, seen)) is not None:
        return again
    same = None if unchanged is None or kept.newest is None else unchanged(pooled)
    known = None if same is None else kept.known(ranks, same)
    found = idle_pools(ranks, gpus_of, quotas, known)
    plans = {} if known is None else kept.plans_of(known.pools & ~found.idle)
    if expect is not None:
        expect([at for at in np.flatnonzero(~found.idle).tolist() if at not in plans])
    parts = list[PoolDecision]()
    for at, (pool, is_idle) in enumerate(zip(pools, found.idle.tolist(), strict=True)):
        ranking, own = partial(ranks.of, at, pool.jobs), partial(seen, at, quotas)
        if is_idle:
            parts.append(IdlePool(pool, own, ranking))
        elif at in plans:
            parts.append(KeptPool(pool, own, plans[at]))
        else:
            parts.append(_decided(at, pool, own(), ranking(), kept))
            quotas = tuple(quota_without(quota, parts[-1]) for quota in quotas)
    kept.newest = PoolDecisions(tuple(parts), ranks, found.blocked, quotas)
    return kept.newest


def _decided(at: int, pool: NodePool, own: Snapshot, ranking: Ranking | None, kept: KeptDecisions) -> PoolDecision:
    """Decide on one pool."""
    plan = kept.plans.decide(at, own, pool.config, pool.policy, ranking)
    return PoolDecision(pool, own, numbered(plan, own, pool))


class KeptDecisions:
    """The newest decisions on several pools.

    Attributes:
        plans: The plans by index of the pool.
        orders: The orders of their jobs.
        newest: All of them; None: there are none yet.
    """

    def __init__(self, rows: JobRows | None = None) -> None:
        """`rows`: as of `KeptOrder`."""
        self.plans, self.orders = KeptPlans(), KeptOrders(rows)
        self.newest: PoolDecisions | None = None

    def again(
        self, ranks: PoolRanks, pools: Sequence[NodePool], seen: Callable[[int, tuple[Quota, ...]], Snapshot]
    ) -> PoolDecisions | None:
        """Return the newest decisions for pools that see nothing else but other times. None: these count. O(jobs log jobs)."""
        before = self.newest
        if before is None or not _count_as(ranks, before.ranks):
            return None
        parts = list[PoolDecision]()
        for at, (pool, part) in enumerate(zip(pools, before.parts, strict=True)):
            own, ranking = partial(seen, at, before.quotas), partial(ranks.of, at, pool.jobs)
            idle = isinstance(part, IdlePool)
            parts.append(IdlePool(pool, own, ranking) if idle else KeptPool(pool, own, part.plan))
        return PoolDecisions(tuple(parts), ranks, before.blocked, before.quotas, kept=True)

    def known(self, ranks: PoolRanks, unchanged: UnchangedPools) -> KnownPools | None:
        """Return what was found in the pools for which service and times do not count; None: in none. O(jobs)."""
        before = self.newest
        if before is None or not ranks.pooled.has_stages_of(before.ranks.pooled):
            return None
        pools = unchanged.pools & ~pools_with_other_ranks(ranks, before.ranks, unchanged.pairs, unchanged.pools)
        idle = np.array([isinstance(part, IdlePool) for part in before.parts], np.bool_)
        blocked = before.blocked[pools[before.ranks.pooled.pool[before.blocked]]]
        return KnownPools(pools, IdlePools(idle, unchanged.pairs.now_of(blocked)))

    def plans_of(self, pools: Bools) -> dict[int, Plan]:
        """Return the newest plans of some pools, by their indices."""
        assert self.newest is not None, "they are known"
        return {at: self.newest.parts[at].plan for at in np.flatnonzero(pools).tolist()}


def _count_as(ranks: PoolRanks, before: PoolRanks) -> bool:
    """Return whether service and times lead to the same orders and protect the same jobs, and count by nothing else."""
    now, then = ranks.pooled, before.pooled
    return (
        bool(ranks.ranked.all())
        and now.has_stages_of(then)
        and np.array_equal(now.pool, then.pool)
        and not now.times_count.any()
        and not then.times_count.any()
        and np.array_equal(now.protected, then.protected)
        and np.array_equal(ranks.order, before.order)
        and np.array_equal(ranks.queue, before.queue)
        and np.array_equal(ranks.promoted, before.promoted)
    )


def numbered(plan: Plan, own: Snapshot, pool: NodePool) -> Plan:
    """With words that name queues as `queues_before` counts them."""
    return replace(plan, standing=_standing(plan, own, pool))


def _standing(plan: Plan, own: Snapshot, pool: NodePool) -> Standing:
    return Standing(own, plan.queue, pool.policy, pool.config, pool.queues_before, pool.note)


def quota_without(quota: Quota, part: PoolDecision) -> Quota:
    """What the jobs that start in a pool, and those for which GPUs are reserved there, leave of the quota."""
    taken = {start.job for start in (*part.plan.starts, *part.plan.reserved)}
    rows = [whole for whole, job in zip(part.pool.jobs.tolist(), part.snapshot.jobs.id, strict=True) if job in taken]
    return replace(quota, left=quota.left - sum(quota.amounts.get(row, 0.0) for row in rows))


@dataclass(frozen=True, slots=True, eq=False)
class JoinedStanding:
    """The standing of the jobs of several pools: of each job in the first pool that has it."""

    parts: Sequence[PoolDecision]

    def of(self, row: int) -> str:
        """The text for one job; `row` of the whole snapshot."""
        for part in self.parts:
            if part.has(row):
                assert part.plan.standing, "as `numbered` gives it"
                return part.plan.standing.of(part.row(row))
        raise IndexError(row)
