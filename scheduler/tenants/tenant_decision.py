"""The decision on one virtual cluster (VC): which of its jobs hold its cells, as if these were a cluster of their own.

Jobs that run opportunistically take part as waiting ones: they are given the VC's free cells as soon as its policy's order permits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Floats, Ints, Jobs, JobState, Quota, Request, Snapshot, Start
from tiresias.scheduler.pools import NodePool, PoolDecision, numbered, quota_of_rows, quota_without, rows_of
from tiresias.scheduler.tenants.cell_changes import ChosenNodes
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes


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
        return selected_by(self.part)

    def chosen(self, start: Start) -> ChosenNodes:
        """Return the cells of the virtual nodes of a start."""
        return [(self.nodes.cell(name), gpus) for name, gpus in start.nodes]


@dataclass(frozen=True, slots=True, eq=False)
class OwnersDecision:
    """The decisions of all VCs, each on what it owns.

    Attributes:
        parts: One for each VC.
        quotas: What their jobs leave of Slurm's limits.
        queues: Their queues together.
    """

    parts: tuple[PoolDecision, ...]
    quotas: tuple[Quota, ...]
    queues: int


def decide_owners(
    tenants: Sequence[TenantPolicy],
    quotas: tuple[Quota, ...],
    decide_one: Callable[[TenantPolicy, tuple[Quota, ...], int], PoolDecision],
) -> OwnersDecision:
    """Decide on each VC in turn.

    Args:
        tenants: The VCs, and `OUTSIDE`, which owns nothing and is left out.
        quotas: Slurm's limits.
        decide_one: Decides on one VC, from what the VCs before it leave of Slurm's limits and the number of their queues.
    """
    parts, queues = list[PoolDecision](), 0
    for tenant in tenants:
        if tenant.name != OUTSIDE:
            parts.append(decide_one(tenant, quotas, queues))
            quotas = tuple(quota_without(quota, parts[-1]) for quota in quotas)
            queues += len(tenant.config.limits) + 1
    return OwnersDecision(tuple(parts), quotas, queues)


def decide_tenant(
    snapshot: Snapshot,
    rows: Ints,
    tenant: TenantPolicy,
    occupancy: CellOccupancy,
    nodes: VirtualNodes,
    available: Floats,
    quotas: tuple[Quota, ...],
    queues_before: int,
) -> PoolDecision:
    """Decide on the jobs of one VC.

    Args:
        snapshot: All jobs and nodes.
        rows: The rows of the VC's jobs, rising.
        tenant: Its policy.
        occupancy: The cells, as the snapshot shows them.
        nodes: Its virtual nodes.
        available: GPUs, CPUs and MiB of each node that guaranteed jobs do not hold, shape (nodes, 3).
        quotas: What other tenants leave of Slurm's limits.
        queues_before: Queues of other tenants, which are counted first where a queue is named.
    """
    groups = occupancy.clusters.groups
    held = [(at, groups[name]) for at, name in enumerate(_ids(snapshot, rows)) if occupancy.is_guaranteed(name)]
    nodes.sort()
    own = Snapshot(
        snapshot.time,
        jobs_of_tenant(snapshot.jobs, rows, [at for at, _ in held], nodes.request),
        nodes.nodes((group for _, group in held), snapshot.nodes, available),
        nodes.allocations(held, snapshot),
        tuple(quota_of_rows(quota, positions(len(snapshot.jobs), rows)) for quota in quotas),
    )
    config = replace(tenant.config, admission="shared", defragment=0)
    pool = NodePool(rows, np.empty(0, np.int64), config, tenant.policy, queues_before)
    return PoolDecision(pool, own, numbered(decide(own, config, tenant.policy), own, pool))


def _ids(snapshot: Snapshot, rows: Ints) -> list[str]:
    return [snapshot.jobs.id[row] for row in rows.tolist()]


def jobs_of_tenant(jobs: Jobs, rows: Ints, held: Sequence[int], seen: Callable[[Request], Request]) -> Jobs:
    """Return the VC's jobs; those that hold nothing of what it owns wait, even while they run.

    Args:
        jobs: All jobs.
        rows: The rows of the VC's jobs, rising.
        held: Positions in `rows` of those that hold some of it.
        seen: What a request demands of the VC's nodes.
    """
    own = rows_of(jobs, rows)
    outside = (own.state == JobState.RUNNING) | (own.state == JobState.STARTING)
    outside[list(held)] = False
    state = np.where(outside, int(JobState.WAITING), own.state)
    requests = tuple(map(seen, own.request))
    return replace(own, state=state, eligible=own.eligible | outside, request=requests)


def positions(count: int, rows: Ints) -> Ints:
    """Return the position of each row among `rows`, shape (count,); -1: it is not one of them."""
    found = np.full(count, -1, np.int64)
    found[rows] = np.arange(len(rows))
    return found


def selected_by(part: PoolDecision) -> list[Start]:
    """Return the jobs that start, now or later, in the order of their ranks."""
    rank = dict(zip(part.snapshot.jobs.id, part.plan.rank.tolist(), strict=True))
    return sorted((*part.plan.starts, *part.plan.reserved), key=lambda start: rank[start.job])


def preempted_for(part: PoolDecision) -> Mapping[str, str]:
    """Return the jobs that lose what they hold of their VC, each with the job for which."""
    return {each.job: each.beneficiary for each in part.plan.preemptions}
