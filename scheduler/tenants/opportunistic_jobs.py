"""The decision on opportunistic jobs: they share what guaranteed jobs neither hold nor are promised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Allocations, Bools, Floats, Ints, Jobs, JobState, Nodes, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED, GPUS
from tiresias.scheduler.pools import NodePool, PoolDecision, numbered, part_of
from tiresias.scheduler.reasons import CONFINED
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts
from tiresias.scheduler.tenants.tenant_decision import OwnersDecision
from tiresias.scheduler.tenants.tenant_rule import TenantPolicy


def decide_opportunistic(
    snapshot: Snapshot,
    guaranteed: GuaranteedStarts,
    takes_part: Bools,
    tenant: TenantPolicy,
    owners: OwnersDecision,
) -> PoolDecision:
    """Decide on the jobs without cells.

    Args:
        snapshot: All jobs and nodes.
        guaranteed: What guaranteed jobs are promised, and which jobs are preempted for them.
        takes_part: The jobs without cells that run, or that wait and may run opportunistically, shape (jobs,). Jobs of no virtual
            cluster that may not are part of it as well, so that each job has a rank, and never start.
        tenant: The policy that orders them.
        owners: What the virtual clusters have decided: their queues are counted first where a queue is named.
    """
    jobs = snapshot.jobs
    victims = np.array([job in guaranteed.preempted for job in jobs.id], np.bool_)
    covered = np.array([job in guaranteed.covered for job in jobs.id], np.bool_)
    state = np.where(victims, int(JobState.RELEASING), jobs.state)
    nodes, allocations = _without_promised(snapshot, state, takes_part, guaranteed.demand.promised)
    eligible = jobs.eligible if jobs.opportunistic is None else jobs.eligible & jobs.opportunistic
    shown = replace(jobs, state=state, movable=jobs.movable & ~covered, eligible=eligible)
    left = replace(snapshot, jobs=shown, nodes=nodes, allocations=allocations, quotas=owners.quotas)
    config = replace(tenant.config, admission="shared")
    pool = NodePool(np.flatnonzero(takes_part), np.arange(len(nodes)), config, tenant.policy, owners.queues)
    own = part_of(left, pool)
    plan = numbered(decide(own, config, tenant.policy), own, pool)
    confined = dict.fromkeys(np.flatnonzero(_confined(own.jobs)).tolist(), CONFINED)
    return PoolDecision(pool, own, replace(plan, why=confined | plan.why))


def _confined(jobs: Jobs) -> Bools:
    """Return which jobs wait and may not run opportunistically, shape (jobs,)."""
    may = np.ones(len(jobs), np.bool_) if jobs.opportunistic is None else jobs.opportunistic
    found: Bools = (jobs.state == JobState.WAITING) & ~may
    return found


def _without_promised(
    snapshot: Snapshot, state: Ints, takes_part: Bools, promised: Floats
) -> tuple[Nodes, Allocations]:
    """Take what is promised from the free resources of each node, then from what its jobs release."""
    free, held = snapshot.nodes.free, snapshot.allocations
    amount, own = free.amount.copy(), held.resources.amount.copy()
    taken = np.minimum(amount[:, :COUNTED], promised)
    amount[:, :COUNTED] -= taken
    rest = promised - taken
    for row in np.flatnonzero((state[held.job] == JobState.RELEASING) & takes_part[held.job]).tolist():
        part = np.minimum(own[row, :COUNTED], rest[held.node[row]])
        own[row, :COUNTED] -= part
        rest[held.node[row]] -= part
    for each in (amount, own):
        each[:, COUNTED:] = np.minimum(each[:, COUNTED:], each[:, GPUS, None])  # of islands, of which no cell is known
    nodes = replace(snapshot.nodes, free=replace(free, amount=amount))
    return nodes, replace(held, resources=replace(held.resources, amount=own))
