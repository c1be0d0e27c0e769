"""Several pools of nodes with an order each: `decide` for every pool alone, and one plan of all.

No node is in two pools, so the plans do not touch. The quotas of Slurm that jobs of several pools share are taken in the order of
the pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Allocations, Effect, Ints, Jobs, Nodes, Plan, Quota, Snapshot
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.rank.standing import JoinedStanding, Standing
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import Topology

T = TypeVar("T", Jobs, Nodes, Allocations)


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


@dataclass(frozen=True, slots=True, eq=False)
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


def decide_pools(snapshot: Snapshot, pools: Sequence[NodePool]) -> tuple[Plan, tuple[PoolDecision, ...]]:
    """`pools`: each job and each node of the snapshot is in exactly one. Returns the plan of all jobs, and those of the pools.

    O(jobs + nodes + allocations) beside what `decide` takes.
    """
    if len(pools) == 1:
        plan = decide(snapshot, pools[0].config, pools[0].policy)
        if pools[0].note:
            plan = numbered(plan, snapshot, pools[0])
        return plan, (PoolDecision(pools[0], snapshot, plan),)
    parts: list[PoolDecision] = []
    left = list(snapshot.quotas)
    for pool in pools:
        own = part_of(replace(snapshot, quotas=tuple(left)), pool)
        parts.append(PoolDecision(pool, own, numbered(decide(own, pool.config, pool.policy), own, pool)))
        left = [quota_without(quota, parts[-1]) for quota in left]
    return _joined(len(snapshot.jobs), parts), tuple(parts)


def numbered(plan: Plan, own: Snapshot, pool: NodePool) -> Plan:
    """With words that name queues as `queues_before` counts them."""
    standing = Standing(own, plan.queue, pool.policy, pool.config, pool.queues_before, pool.note)
    return replace(plan, standing=standing)


def next_change_of(parts: Sequence[PoolDecision]) -> float:
    """As `decide.next_change`, of all pools."""
    return min(next_change(part.snapshot, part.pool.config, part.pool.policy) for part in parts)


def part_of(snapshot: Snapshot, pool: NodePool) -> Snapshot:
    """What the pool sees: its jobs and nodes, and what its jobs have on them."""
    row_of = np.full(len(snapshot.jobs), -1, np.int64)
    row_of[pool.jobs] = np.arange(len(pool.jobs))
    node_of = np.full(len(snapshot.nodes), -1, np.int64)
    node_of[pool.nodes] = np.arange(len(pool.nodes))
    held = snapshot.allocations
    here = np.flatnonzero((row_of[held.job] >= 0) & (node_of[held.node] >= 0))
    own = rows_of(held, here)
    own = replace(own, job=row_of[own.job], node=node_of[own.node])
    quotas = tuple(quota_of_rows(quota, row_of) for quota in snapshot.quotas)
    return Snapshot(snapshot.time, rows_of(snapshot.jobs, pool.jobs), rows_of(snapshot.nodes, pool.nodes), own, quotas)


def rows_of(table: T, rows: Ints) -> T:
    """Return these rows of each column."""
    return replace(table, **{one.name: _taken(getattr(table, one.name), rows) for one in fields(table)})


def _taken(column: Any, rows: Ints) -> Any:
    if isinstance(column, Resources):
        return column.rows(rows)
    if isinstance(column, Topology):
        return column.of_nodes(rows)
    if isinstance(column, tuple):
        return tuple(column[row] for row in rows.tolist()) if column else ()
    return None if column is None else column[rows]


def quota_of_rows(quota: Quota, row_of: Ints) -> Quota:
    own = {int(row_of[row]): amount for row, amount in quota.amounts.items() if row_of[row] >= 0}
    return replace(quota, amounts=own)


def quota_without(quota: Quota, part: PoolDecision) -> Quota:
    """What the jobs that start in a pool, and those for which GPUs are reserved there, leave of the quota."""
    taken = {start.job for start in (*part.plan.starts, *part.plan.reserved)}
    rows = [whole for whole, job in zip(part.pool.jobs.tolist(), part.snapshot.jobs.id, strict=True) if job in taken]
    return replace(quota, left=quota.left - sum(quota.amounts.get(row, 0.0) for row in rows))


def _joined(count: int, parts: Sequence[PoolDecision]) -> Plan:
    """One plan. Ranks count through, pool by pool."""
    action, queue, rank = (np.full(count, fill, np.int64) for fill in (Effect.WAIT, 0, 0))
    standings: list[tuple[Ints, Standing]] = []
    first = 0
    for part in parts:
        rows = part.pool.jobs
        action[rows], queue[rows], rank[rows] = part.plan.effect, part.plan.queue, part.plan.rank + first
        assert isinstance(part.plan.standing, Standing), "as `numbered` gives it"
        standings.append((rows, part.plan.standing))
        first += len(rows)

    why = {int(part.pool.jobs[row]): words for part in parts for row, words in part.plan.why.items()}
    plans = [part.plan for part in parts]
    return Plan(
        action,
        queue,
        rank,
        actions=(*(one for plan in plans for one in plan.starts), *(one for plan in plans for one in plan.preemptions)),
        promoted=tuple(one for plan in plans for one in plan.promoted),
        reserved=tuple(one for plan in plans for one in plan.reserved),
        why=why,
        standing=JoinedStanding(tuple(standings)),
    )
