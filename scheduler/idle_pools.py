"""Pools in which no job can start: nothing happens there, so that no walk and no placement is needed.

A pool is idle if no waiting job gets GPUs by the walk of pseudocode 2: for each one, in the order of the ranks, all that is free or
could be preempted minus the running jobs ahead of it is less than it requests. A walk that selects no waiting job preempts none
either. What may change a plan in other ways makes a pool busy: quotas, jobs for which GPUs are kept free, plugins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.admit.quotas import free_only
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.model import Bools, Effect, Floats, Ints, Jobs, JobState, Plan, Quota, Request, Snapshot
from tiresias.scheduler.pool_ranks import PoolRanks
from tiresias.scheduler.rank.policy import Policy, Ranking
from tiresias.scheduler.rank.standing import Standing
from tiresias.scheduler.reasons import BLOCKED

_WAITING, _RUNNING, _RELEASING = int(JobState.WAITING), int(JobState.RUNNING), int(JobState.RELEASING)  # compare faster
_EFFECTS = {JobState.WAITING: Effect.WAIT, JobState.RELEASING: Effect.RELEASE}
_UNCHANGED = np.array([_EFFECTS.get(state, Effect.KEEP) for state in sorted(JobState)], np.int64)  # by state


@dataclass(frozen=True, slots=True, eq=False)
class PooledGpus:
    """The GPUs of pools.

    Attributes:
        total: GPUs of all nodes of each pool, shape (pools,).
        free: Those on usable nodes that no job holds, shape (pools,).
        job: Row of the job of each allocation on a usable node of the job's pool, shape (allocations,).
        held: Its GPUs there.
    """

    total: Ints
    free: Floats
    job: Ints
    held: Floats


@dataclass(frozen=True, slots=True, eq=False)
class IdlePools:
    """Which pools have nothing to do.

    Attributes:
        idle: Whether each pool is idle, shape (pools,).
        blocked: Rows of the jobs of idle pools that wait because no job overtakes the first waiting one.
    """

    idle: Bools
    blocked: Ints


@dataclass(frozen=True, slots=True, eq=False)
class KnownPools:
    """What is known of pools before a search.

    Attributes:
        pools: Which are known, shape (pools,).
        found: Which of these are idle.
    """

    pools: Bools
    found: IdlePools


def idle_pools(
    ranks: PoolRanks,
    gpus_of: Callable[[], PooledGpus],
    quotas: tuple[Quota, ...] = (),
    known: KnownPools | None = None,
) -> IdlePools:
    """Return the pools in which no job can start.

    O(jobs + allocations), and the ranks where jobs wait.

    Args:
        ranks: The jobs in their order.
        gpus_of: Returns the GPUs; called where jobs wait.
        quotas: Slurm's limits.
        known: Pools that need no search; None: none is known.
    """
    found = _IdlePools(ranks, quotas, known)
    if found.any_waits() and found.any_applies(gpus_of()):
        found.walk()
    idle, blocked = ~found.busy, found.blocked
    if known is not None:
        idle = np.where(known.pools, known.found.idle, idle)
        blocked = np.concatenate((known.found.blocked, blocked))
    return IdlePools(idle, blocked)


def idle_plan(snapshot: Snapshot, config: PolicyConfig, policy: Policy, ranking: Ranking) -> Plan:
    """Return the plan of an idle pool, as `decide` makes it.

    Args:
        snapshot: The pool's jobs and nodes.
        config: The configuration of its policy.
        policy: Its policy.
        ranking: The order of its jobs.
    """
    jobs, order = snapshot.jobs, ranking.order
    rank = np.empty(len(jobs), np.int64)
    rank[order] = np.arange(len(jobs))
    waiting = order[_apply(jobs, snapshot.nodes.gpus.sum())[order]] if policy.blocks else order[:0]
    return Plan(
        unchanged(jobs),
        ranking.queue,
        rank,
        promoted=tuple(jobs.id[row] for row in np.flatnonzero(ranking.promoted)),
        why=dict.fromkeys(waiting[1:].tolist(), BLOCKED),
        standing=Standing(snapshot, ranking.queue, policy, config),
    )


def unchanged(jobs: Jobs) -> Ints:
    """Return the effect on each job where none starts and none is preempted, shape (jobs,)."""
    effect: Ints = _UNCHANGED[jobs.state]
    return effect


def _apply(jobs: Jobs, total: Values) -> Bools:
    """Return the waiting jobs that may start, and could on empty nodes. `total`: GPUs of the nodes of each job's pool."""
    found: Bools = (jobs.state == _WAITING) & jobs.eligible & (jobs.gpus <= total)
    return found


class _IdlePools:
    """One search.

    Attributes:
        busy: The pools that are not idle, as far as known.
        blocked: As of `IdlePools`.
    """

    def __init__(self, ranks: PoolRanks, quotas: tuple[Quota, ...], known: KnownPools | None) -> None:
        self._ranks, self._pooled, self.blocked = ranks, ranks.pooled, np.empty(0, np.int64)
        self._known = known
        self._jobs, self._pool = self._pooled.jobs, self._pooled.pool
        self.busy: Bools = ~ranks.ranked
        self._blocks = np.array([policy.blocks for _, policy in self._pooled.stages], np.bool_)
        for quota in quotas:
            self._make_busy(np.fromiter(quota.amounts, np.int64, len(quota.amounts)))
        for each in self._pooled.alike:
            extended = each.config.sizing != "fixed" or each.config.admission != "shared"
            if extended or (each.policy.blocks and each.policy.preempts):
                self.busy[each.pools] = True

    def any_waits(self) -> bool:
        """Return whether a job of a pool waits."""
        return bool((self._pooled.inside & (self._jobs.state == _WAITING) & self._jobs.eligible).any())

    def any_applies(self, gpus: PooledGpus) -> bool:
        """Return whether a waiting job could start on empty nodes."""
        self._gpus, self._applies = gpus, self._pooled.inside & _apply(self._jobs, gpus.total[self._pool])
        return bool(self._applies.any())

    def _make_busy(self, rows: Ints) -> None:
        pools = self._pool[rows]
        self.busy[pools[pools >= 0]] = True

    def walk(self) -> None:
        """Make the pools busy in which a waiting job can start."""
        order, competes = self._order(), self._competes()
        if self._pooled.drains.any():
            self._make_busy(np.flatnonzero(self._pooled.drains & self._applies & ~free_only(self._jobs)))
        pool, cost = self._pool[order], self._held()[order] * competes[order]
        capacity = self._capacity(competes)
        running = np.bincount(pool, cost, len(self.busy))
        self.busy |= running > capacity  # more GPUs are held than there are
        ahead = np.cumsum(cost) - cost
        first = np.flatnonzero(np.concatenate((pool[:1] >= 0, pool[1:] != pool[:-1])))
        ahead -= np.repeat(ahead[first], np.diff(np.append(first, len(order))))
        fits = self._applies[order] & (self._jobs.gpus[order] <= capacity[pool] - ahead)
        self.busy[pool[fits & ~self._blocks[pool]]] = True
        self._heads(order, pool, fits)

    def _heads(self, order: Ints, pool: Ints, fits: Bools) -> None:
        """Where no job overtakes another one, the first waiting job decides. One that could never run is no obstacle."""
        at = np.flatnonzero(self._applies[order] & self._blocks[pool])
        is_head = np.ones(len(at), np.bool_)
        is_head[1:] = pool[at[1:]] != pool[at[:-1]]
        head = at[is_head]
        self.busy[pool[head[fits[head]]]] = True
        trial = free_only(self._jobs)
        special = [row for row in order[head].tolist() if trial[row] or not _is_plain(self._jobs.request[row])]
        self._make_busy(np.array(special, np.int64))
        others = order[at[~is_head]]
        self.blocked = others[~self.busy[self._pool[others]]]

    def _order(self) -> Ints:
        """Return the rows of the jobs of the pools that are not known, pool by pool in their order."""
        order = self._ranks.order
        if self._known is None or not self._known.pools.any():
            return order
        first = self._ranks.first.tolist()
        return np.concatenate(
            [order[:0], *(order[first[at] : first[at + 1]] for at in np.flatnonzero(~self._known.pools))]
        )

    def _competes(self) -> Bools:
        """Return the running jobs that may be preempted."""
        preempts = np.array([policy.preempts for _, policy in self._pooled.stages] + [False], np.bool_)
        runs = self._jobs.movable & (self._jobs.state == _RUNNING) & ~self._pooled.protected
        found: Bools = runs & preempts[self._pool]  # the last one is of the jobs of no pool
        return found

    def _held(self) -> Ints:
        """Return the GPUs that the end of each job would free."""
        return np.bincount(self._gpus.job, self._gpus.held, len(self._jobs)).astype(np.int64)

    def _capacity(self, competes: Bools) -> Floats:
        """Return the GPUs of each pool that would be free after all possible preemptions."""
        gpus = self._gpus
        going = (competes | (self._jobs.state == _RELEASING))[gpus.job]
        return np.rint(gpus.free + np.bincount(self._pool[gpus.job[going]], gpus.held[going], len(self.busy)))


def _is_plain(request: Request) -> bool:
    """Return whether such a job fits on any empty nodes with enough GPUs."""
    return request.min_nodes <= 1 and not (
        request.max_nodes
        or request.gpus_per_node
        or request.gpu_type
        or request.features
        or request.nodes
        or request.excluded
        or request.closed
    )
