"""The decision on opportunistic jobs: they share what guaranteed jobs neither hold nor are promised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Allocations, Bools, Floats, Ints, JobState, Nodes, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED, GPUS
from tiresias.scheduler.place.selected_parts import promised_parts
from tiresias.scheduler.pools import NodePool, PoolDecision, numbered, part_of
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
        takes_part: The jobs without cells that run, or that wait and may run opportunistically, shape (jobs,).
        tenant: The policy that orders them.
        owners: What the virtual clusters have decided: their queues are counted first where a queue is named.
    """
    jobs = snapshot.jobs
    victims = np.array([job in guaranteed.preempted for job in jobs.id], np.bool_)
    covered = np.array([job in guaranteed.covered for job in jobs.id], np.bool_)
    state = np.where(victims, int(JobState.RELEASING), jobs.state)
    parts = promised_parts(snapshot.nodes, (*guaranteed.starts, *guaranteed.reserved))
    promised = np.concatenate((guaranteed.demand.promised, parts), axis=1)
    nodes, allocations = _without_promised(snapshot, state, takes_part, promised)
    shown = replace(jobs, state=state, movable=jobs.movable & ~covered)
    left = replace(snapshot, jobs=shown, nodes=nodes, allocations=allocations, quotas=owners.quotas)
    config = replace(tenant.config, admission="shared")
    pool = NodePool(np.flatnonzero(takes_part), np.arange(len(nodes)), config, tenant.policy, owners.queues)
    own = part_of(left, pool)
    return PoolDecision(pool, own, numbered(decide(own, config, tenant.policy), own, pool))


def _without_promised(
    snapshot: Snapshot, state: Ints, takes_part: Bools, promised: Floats
) -> tuple[Nodes, Allocations]:
    """Take what is promised from the free resources of each node, then from what its jobs release.

    `promised`: shape (nodes, columns of the resources); nothing of islands where starts do not select parts.
    """
    free, held = snapshot.nodes.free, snapshot.allocations
    amount, own = free.amount.copy(), held.resources.amount.copy()
    taken = np.minimum(amount, promised)
    amount -= taken
    rest = promised - taken
    for row in np.flatnonzero((state[held.job] == JobState.RELEASING) & takes_part[held.job]).tolist():
        part = np.minimum(own[row], rest[held.node[row]])
        own[row] -= part
        rest[held.node[row]] -= part
    for each in (amount, own):
        each[:, COUNTED:] = np.minimum(each[:, COUNTED:], each[:, GPUS, None])
    nodes = replace(snapshot.nodes, free=replace(free, amount=amount))
    return nodes, replace(held, resources=replace(held.resources, amount=own))
