"""The decision on opportunistic jobs: they share what guaranteed jobs neither hold nor are promised.

As in HiveD's implementation, none of them waits for another one. Under a policy with head-of-line blocking (`fifo`) the order of
the jobs of a virtual cluster holds in its cells. Beyond them, a job that waits for whole nodes would block the jobs of all others.
They use the nodes of guaranteed jobs only where others do not suffice, as virtual clusters pack their jobs on those nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np

from tiresias.scheduler.model import Allocations, Bools, Floats, Ints, Jobs, JobState, Nodes, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED, GPUS
from tiresias.scheduler.place.selected_parts import promised_parts
from tiresias.scheduler.pool_decisions import KeptDecisions, NodePool, PoolDecisions, decide_each
from tiresias.scheduler.pool_ranks import PooledJobs
from tiresias.scheduler.pools import gpus_of, part_of
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts
from tiresias.scheduler.tenants.tenant_decision import OwnersDecision
from tiresias.scheduler.tenants.tenant_rule import TenantPolicy, config_inside


def decide_opportunistic(
    snapshot: Snapshot,
    guaranteed: GuaranteedStarts,
    takes_part: Bools,
    tenant: TenantPolicy,
    owners: OwnersDecision,
    row_of: Mapping[str, int],
    kept: KeptDecisions | None = None,
    only_times_differ: bool = False,
) -> PoolDecisions:
    """Decide on the jobs without cells, as one pool.

    Args:
        snapshot: All jobs and nodes.
        guaranteed: What guaranteed jobs are promised, and which jobs are preempted for them.
        takes_part: The jobs without cells that run, or that wait and may run opportunistically, shape (jobs,). Jobs of no virtual
            cluster that may not are part of it as well, so that each job has a rank, and never start.
        tenant: The policy that orders them.
        owners: What the virtual clusters have decided: their queues are counted first where a queue is named.
        row_of: The row of each job.
        kept: What was decided before; None: nothing was.
        only_times_differ: Whether all that is given here is as it was then but for service and times.
    """
    config, shown = config_inside(tenant.config), _shown(snapshot.jobs, guaranteed, row_of)
    policy = _without_blocking(tenant.policy)
    pool = NodePool(np.flatnonzero(takes_part), np.arange(len(snapshot.nodes)), config, policy, owners.queues)
    of_job = np.where(takes_part, 0, -1)

    @cache
    def left() -> Snapshot:
        parts = promised_parts(snapshot.nodes, (*guaranteed.starts, *guaranteed.reserved))
        promised = np.concatenate((guaranteed.demand.promised, parts), axis=1)
        nodes, allocations = _without_promised(snapshot, shown.state, takes_part, promised)
        nodes = replace(nodes, last_resort=_with_guaranteed(snapshot, takes_part, promised))
        return replace(snapshot, jobs=shown, nodes=nodes, allocations=allocations)

    return decide_each(
        PooledJobs(snapshot.time, shown, of_job, [(config, policy)], owners.pools.ranks.pooled.computed),
        [pool],
        lambda: gpus_of(left(), [pool], of_job),
        owners.pools.quotas,
        lambda _, rest: part_of(replace(left(), quotas=rest), pool),
        kept,
        only_times_differ,
    )


def _without_blocking(policy: Policy) -> Policy:
    """Return the policy in which jobs that fit overtake one that does not."""
    if not policy.blocks:
        return policy
    found = copy(policy)
    found.blocks = False
    return found


def _shown(jobs: Jobs, guaranteed: GuaranteedStarts, row_of: Mapping[str, int]) -> Jobs:
    """Return the jobs once those have been preempted that others need; a job for which cells are kept free is not
    movable, and one that may not run opportunistically does not start."""
    if jobs.opportunistic is not None:
        jobs = replace(jobs, eligible=jobs.eligible & jobs.opportunistic)
    if not (guaranteed.preempted or guaranteed.covered):
        return jobs
    state, movable = jobs.state.copy(), jobs.movable.copy()
    state[[row_of[job] for job in guaranteed.preempted]] = JobState.RELEASING
    movable[[row_of[job] for job in guaranteed.covered]] = False
    return replace(jobs, state=state, movable=movable)


def _with_guaranteed(snapshot: Snapshot, takes_part: Bools, promised: Floats) -> Bools:
    """Return the nodes with GPUs that guaranteed jobs hold or are promised, and those that are a last resort; shape (nodes,)."""
    held = snapshot.allocations
    found: Bools = promised[:, GPUS] > 0
    if snapshot.nodes.last_resort is not None:
        found |= snapshot.nodes.last_resort
    found[held.node[~takes_part[held.job]]] = True
    return found


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
