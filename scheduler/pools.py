"""Several pools of nodes with an order each: `decide` for every pool alone, and one plan of all.

No node is in two pools, so the plans do not touch. The quotas of Slurm that jobs of several pools share are taken in the order of
the pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.scheduler.idle_pools import PooledGpus, unchanged
from tiresias.scheduler.model import Ints, Jobs, Plan, Quota, Snapshot
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.pool_decisions import JoinedStanding as JoinedStanding
from tiresias.scheduler.pool_decisions import NodePool as NodePool
from tiresias.scheduler.pool_decisions import PoolDecision as PoolDecision
from tiresias.scheduler.pool_decisions import PoolDecisions, decide_each
from tiresias.scheduler.pool_decisions import numbered as numbered
from tiresias.scheduler.pool_ranks import PooledJobs
from tiresias.scheduler.table_rows import rows_of as rows_of


def decide_pools(snapshot: Snapshot, pools: Sequence[NodePool]) -> tuple[Plan, tuple[PoolDecision, ...]]:
    """`pools`: each job and each node of the snapshot is in exactly one. Returns the plan of all jobs, and those of the pools.

    O(jobs log jobs + nodes + allocations), and what `decide` takes for each pool in which a job may start.
    """
    if len(pools) == 1:
        plan = decide(snapshot, pools[0].config, pools[0].policy)
        if pools[0].note:
            plan = numbered(plan, snapshot, pools[0])
        return plan, (PoolDecision(pools[0], snapshot, plan),)
    of_job = index_of(len(snapshot.jobs), [pool.jobs for pool in pools])
    pooled = PooledJobs(snapshot.time, snapshot.jobs, of_job, [(pool.config, pool.policy) for pool in pools])
    found = decide_each(
        pooled,
        pools,
        partial(gpus_of, snapshot, pools, of_job),
        snapshot.quotas,
        lambda at, left: part_of(replace(snapshot, quotas=left), pools[at]),
    )
    return _joined(snapshot.jobs, found), found.parts


def index_of(count: int, rows: Sequence[Ints]) -> Ints:
    """Return for each of `count` rows the index of the list that has it; -1: none has it."""
    found = np.full(count, -1, np.int64)
    for at, each in enumerate(rows):
        found[each] = at
    return found


def gpus_of(snapshot: Snapshot, pools: Sequence[NodePool], of_job: Ints) -> PooledGpus:
    """Return the GPUs of the pools. What a job has on nodes of other pools does not count.

    Args:
        snapshot: Jobs, nodes and allocations.
        pools: The pools; no node is in two of them.
        of_job: Index of each job's pool, shape (jobs,); -1: it is in none.
    """
    nodes, held, count = snapshot.nodes, snapshot.allocations, len(pools)
    of_node = index_of(len(nodes), [pool.nodes for pool in pools])
    free = np.where(nodes.usable, nodes.free["gpus"], 0.0)
    own = nodes.usable[held.node] & (of_node[held.node] == of_job[held.job]) & (of_job[held.job] >= 0)
    inside = of_node >= 0
    return PooledGpus(
        np.bincount(of_node[inside], nodes.gpus[inside], count).astype(np.int64),
        np.bincount(of_node[inside], free[inside], count).astype(np.float64),
        held.job[own],
        held.resources["gpus"][own],
    )


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
    return Snapshot(
        snapshot.time,
        rows_of(snapshot.jobs, pool.jobs),
        rows_of(snapshot.nodes, pool.nodes),
        own,
        quotas,
        snapshot.interference,
        snapshot.trained,
    )


def quota_of_rows(quota: Quota, row_of: Ints) -> Quota:
    own = {int(row_of[row]): amount for row, amount in quota.amounts.items() if row_of[row] >= 0}
    return replace(quota, amounts=own)


def _joined(jobs: Jobs, found: PoolDecisions) -> Plan:
    """One plan. Ranks count through, pool by pool."""
    effect, plans = unchanged(jobs), list[Plan]()
    servers = np.zeros(len(jobs), np.int64)
    for part in found.busy:
        effect[part.pool.jobs] = part.plan.effect
        plans.append(part.plan)
        if part.plan.servers is not None:
            servers[part.pool.jobs] = part.plan.servers
    return Plan(
        effect,
        *found.order(),
        actions=(
            *(one for plan in plans for one in plan.starts),
            *(one for plan in plans for one in plan.releases),
            *(one for plan in plans for one in plan.resizes if not one.beneficiary),
        ),
        promoted=tuple(found.promoted(jobs.id)),
        reserved=tuple(one for plan in plans for one in plan.reserved),
        why=found.why(),
        standing=JoinedStanding(found.parts),
        servers=servers if any(plan.servers is not None for plan in plans) else None,
    )
