"""The decisions on what virtual clusters (VCs) own: which of its jobs hold it, as if it were a cluster of its own.

Jobs that run opportunistically take part as waiting ones: they are given the VC's free cells as soon as its policy's order permits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.protection import minimum
from tiresias.scheduler.idle_pools import PooledGpus
from tiresias.scheduler.model import Bools, Ints, Jobs, JobState, Quota, Snapshot, Start
from tiresias.scheduler.pool_decisions import (
    KeptDecisions,
    NodePool,
    PoolDecision,
    PoolDecisions,
    decide_each,
)
from tiresias.scheduler.pool_ranks import PooledJobs
from tiresias.scheduler.tenants.cell_changes import ChosenNodes
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy, config_of_owner
from tiresias.scheduler.tenants.tenant_rules import JobTenants
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes
from tiresias.scheduler.unchanged_pools import UnchangedPools
from tiresias.scheduler.virtual_clusters.cell import VirtualCell


@dataclass(frozen=True, slots=True, eq=False)
class TenantDecision:
    """A VC's part of a decision.

    Attributes:
        part: Its snapshot of virtual nodes, and the plan for it.
        nodes: Its virtual nodes.
    """

    part: PoolDecision
    nodes: VirtualNodes

    def chosen(self, start: Start) -> ChosenNodes:
        """Return the cells of the virtual nodes of a start."""
        return [(self.nodes.cell(name), gpus) for name, gpus in start.nodes]

    def named(self, row: int) -> frozenset[VirtualCell]:
        """Return the cells that a job is given for the nodes that it names. `row`: of the job in the whole snapshot."""
        request = self.part.snapshot.jobs.request[self.part.row(row)]
        return frozenset(map(self.nodes.cell, request.nodes))


@dataclass(frozen=True, slots=True, eq=False)
class OwnersDecision:
    """The decisions of all VCs, each on what it owns.

    Attributes:
        pools: One for each VC.
        queues: Their queues together.
    """

    pools: PoolDecisions
    queues: int


def decide_owners(
    snapshot: Snapshot,
    tenants: Sequence[TenantPolicy],
    of_jobs: JobTenants,
    seen: Jobs,
    gpus_of: Callable[[], PooledGpus],
    own_snapshot: Callable[[str, tuple[Quota, ...]], Snapshot],
    kept: KeptDecisions | None = None,
    only_times_differ: bool = False,
    unchanged: Callable[[PooledJobs], UnchangedPools | None] | None = None,
    expect: Callable[[Sequence[str]], object] | None = None,
    as_ranked: Jobs | None = None,
) -> OwnersDecision:
    """Decide on each VC in turn.

    Args:
        snapshot: All jobs and nodes, and Slurm's limits.
        tenants: The VCs, and `OUTSIDE`, which owns nothing and is left out.
        of_jobs: The tenants of the jobs.
        seen: All jobs, each as its VC sees it (`seen_by_owners`).
        gpus_of: Returns what the VCs own, in the order of `JobTenants.owners`.
        own_snapshot: Returns the snapshot of a VC, from what the VCs before it leave of Slurm's limits.
        kept: What they decided before; None: nothing.
        only_times_differ: Whether they see what they saw then but for service and times.
        unchanged: Returns the VCs of which this holds; None: it is not known.
        expect: Called with the VCs whose snapshots are needed.
        as_ranked: As of `PooledJobs`.
    """
    pools, queues, configs = list[NodePool](), 0, dict[int, PolicyConfig]()
    for tenant in tenants:
        if tenant.name != OUTSIDE:
            key, rows = id(tenant.config), of_jobs.rows[tenant.name]  # a hash of a configuration takes a while
            config = configs[key] = configs.get(key) or config_of_owner(tenant.config)
            pools.append(NodePool(rows, np.empty(0, np.int64), config, tenant.policy, queues))
            queues += len(tenant.config.limits) + 1
    names = of_jobs.owners
    stages = [(pool.config, pool.policy) for pool in pools]
    pooled = PooledJobs(snapshot.time, seen, of_jobs.of_owner, stages, as_ranked=as_ranked)
    found = decide_each(
        pooled,
        pools,
        gpus_of,
        snapshot.quotas,
        lambda at, left: own_snapshot(names[at], left),
        kept,
        only_times_differ,
        unchanged,
        None if expect is None else lambda indices: expect([names[at] for at in indices]),
    )
    return OwnersDecision(found, queues)


def seen_by_owners(jobs: Jobs, holds: Bools) -> Jobs:
    """Return all jobs as their VCs see them: those that hold nothing of what it owns wait, even while they run.

    Args:
        jobs: All jobs.
        holds: Those that hold some of what their VC owns, shape (jobs,).
    """
    outside = ((jobs.state == JobState.RUNNING) | (jobs.state == JobState.STARTING)) & ~holds
    state = np.where(outside, int(JobState.WAITING), jobs.state)
    return replace(jobs, state=state, eligible=jobs.eligible | outside)


def ranked_by_owners(snapshot: Snapshot, seen: Jobs, tenants: Sequence[TenantPolicy], of_jobs: JobTenants) -> Jobs:
    """Return all jobs as policies rank them that rank running jobs first.

    A job that runs and holds nothing of what its VC owns ranks as one that has just started: after those that hold some of it,
    and before waiting jobs of its queue. So it is given what becomes free, and no job is preempted. If a waiting job were given
    that, two jobs of the VC would run, and the GPUs of one of them would be another job's. Several of them rank in the order of
    their starts, so that one which is preempted and starts again does not come before the others again. Until its minimum run
    time is over it ranks as a waiting job: it may have started while jobs were preempted for a job that ranks before it.
    """
    jobs = snapshot.jobs
    runs = (jobs.state != JobState.WAITING) & (seen.state == JobState.WAITING)
    least = [minimum(tenant.config, math.nan) for tenant in tenants if tenant.name != OUTSIDE]
    runs &= snapshot.time - jobs.last_start >= np.array([*least, math.inf])[of_jobs.of_owner]
    if not runs.any():
        return seen
    after_all = snapshot.time + jobs.last_start - jobs.last_start[runs].min()
    state, last_start = np.where(runs, jobs.state, seen.state), np.where(runs, after_all, seen.last_start)
    return replace(seen, state=state, last_start=last_start)


def positions(count: int, rows: Ints) -> Ints:
    """Return the position of each row among `rows`, shape (count,); -1: it is not one of them."""
    found = np.full(count, -1, np.int64)
    found[rows] = np.arange(len(rows))
    return found


def selected_by(part: PoolDecision, row_of: Mapping[str, int]) -> list[Start]:
    """Return the jobs that start, now or later, in the order of their ranks. `row_of`: the row of each job among all jobs."""
    starts = (*part.plan.starts, *part.plan.reserved)
    if len(starts) < 2:
        return list(starts)
    rows = np.searchsorted(part.pool.jobs, [row_of[start.job] for start in starts])
    return [starts[at] for at in np.argsort(part.plan.rank[rows]).tolist()]


def preempted_for(part: PoolDecision) -> Mapping[str, str]:
    """Return the jobs that lose what they hold of their VC, each with the job for which."""
    return {each.job: each.beneficiary for each in part.plan.preemptions}
