"""The decision on one virtual cluster (VC): which of its jobs hold its cells, as if these were a cluster of their own.

Jobs that run opportunistically take part as waiting ones: the VC's free cells are theirs as soon as its policy's order permits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Ints, Jobs, JobState, Quota, Snapshot, Start
from tiresias.scheduler.pools import NodePool, PoolDecision, numbered, quota_of_rows, rows_of
from tiresias.scheduler.tenants.cell_changes import ChosenNodes
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.tenant_rule import TenantPolicy
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes, request_in_cells


@dataclass(frozen=True, slots=True, eq=False)
class TenantDecision:
    """A VC's part of a decision.

    Attributes:
        part: Its snapshot of virtual nodes, and the plan for it.
        nodes: Its virtual nodes.
    """

    part: PoolDecision
    nodes: VirtualNodes

    def selected(self) -> list[Start]:
        """Return the jobs that are to hold cells and do not yet, in the order of their ranks, each with its virtual nodes."""
        plan, jobs = self.part.plan, self.part.snapshot.jobs
        rank = dict(zip(jobs.id, plan.rank.tolist(), strict=True))
        return sorted((*plan.starts, *plan.reserved), key=lambda start: rank[start.job])

    def chosen(self, start: Start) -> ChosenNodes:
        """Return the cells of the virtual nodes of a start."""
        return [(self.nodes.cell(name), gpus) for name, gpus in start.nodes]


def decide_tenant(
    snapshot: Snapshot,
    rows: Ints,
    tenant: TenantPolicy,
    occupancy: CellOccupancy,
    nodes: VirtualNodes,
    quotas: tuple[Quota, ...],
    queues_before: int,
) -> TenantDecision:
    """Decide on the jobs of one VC.

    Args:
        snapshot: All jobs and nodes.
        rows: The rows of the VC's jobs, rising.
        tenant: Its policy.
        occupancy: The cells, as the snapshot shows them.
        nodes: Its virtual nodes.
        quotas: What other tenants leave of Slurm's limits.
        queues_before: Queues of other tenants, which are counted first where a queue is named.
    """
    groups = occupancy.clusters.groups
    held = [(at, groups[name]) for at, name in enumerate(_ids(snapshot, rows)) if occupancy.is_guaranteed(name)]
    nodes.sort()
    own = Snapshot(
        snapshot.time,
        _jobs(snapshot.jobs, rows, [at for at, _ in held]),
        nodes.nodes(group for _, group in held),
        nodes.allocations(held),
        tuple(quota_of_rows(quota, _row_of(len(snapshot.jobs), rows)) for quota in quotas),
    )
    config = replace(tenant.config, admission="shared", defragment=0)
    pool = NodePool(rows, np.empty(0, np.int64), config, tenant.policy, queues_before)
    return TenantDecision(PoolDecision(pool, own, numbered(decide(own, config, tenant.policy), own, pool)), nodes)


def _ids(snapshot: Snapshot, rows: Ints) -> list[str]:
    return [snapshot.jobs.id[row] for row in rows.tolist()]


def _jobs(jobs: Jobs, rows: Ints, held: list[int]) -> Jobs:
    """Return the VC's jobs; those without cells wait, even while they run."""
    own = rows_of(jobs, rows)
    outside = (own.state == JobState.RUNNING) | (own.state == JobState.STARTING)
    outside[held] = False
    state = np.where(outside, int(JobState.WAITING), own.state)
    requests = tuple(map(request_in_cells, own.request))
    return replace(own, state=state, eligible=own.eligible | outside, request=requests)


def _row_of(count: int, rows: Ints) -> Ints:
    found = np.full(count, -1, np.int64)
    found[rows] = np.arange(len(rows))
    return found


def preempted_for(decision: TenantDecision) -> Mapping[str, str]:
    """Return the jobs that lose their cells, each with the job for which."""
    return {each.job: each.beneficiary for each in decision.part.plan.preemptions}
