"""The admission rule `gpu_quotas`: each virtual cluster (VC) is promised a number of GPUs, on any nodes.

1. Each VC decides, by numbers of GPUs and with its own policy, which of its jobs are within its quota.
2. These are placed: on free GPUs, else on those of running jobs beyond the quotas, which are preempted. No job within a quota is
   preempted for one of another VC, so a job within its quota waits where the free GPUs are scattered: the sharing anomaly (HiveD,
   Zhao et al., OSDI 2020).
3. All other jobs share the rest by the policy of `OUTSIDE`.

It is what quotas of other schedulers do, and a baseline for `virtual_clusters`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Bools, Ints, JobState, Nodes, Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.rank.policy import Policy, Ranking, ordered
from tiresias.scheduler.tenants.cells_of_topology import cell_specification, shape_of
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand, is_reclaimable, may_be_removed
from tiresias.scheduler.tenants.opportunistic_jobs import decide_opportunistic
from tiresias.scheduler.tenants.quota_decision import GpuShare, decide_quota, shares
from tiresias.scheduler.tenants.tenant_decision import decide_owners, preempted_for, selected_by
from tiresias.scheduler.tenants.tenant_plan import joined_plan
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.tenant_rules import (
    belongs_to_none,
    may_be_opportunistic,
    rows_by_tenant,
    tenant_of_jobs,
)
from tiresias.scheduler.virtual_clusters.cell_state import CellState


class GpuQuotas:
    """The rule. A quota is the number of GPUs in the cells that a VC declares, for each GPU type."""

    def __init__(self, declared: Sequence[DeclaredTenant]) -> None:
        """`declared`: the VCs. Whether their cells exist is checked with the first nodes."""
        self._declared = tuple(declared)
        self._shape: Hashable = None
        self._shares: Mapping[str, GpuShare] = {}

    def decide(self, snapshot: Snapshot, tenants: Sequence[TenantPolicy]) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Return the plan of all jobs, and the decisions of which it consists: of each VC, then of the jobs beyond the quotas.

        Raises:
            UsageError: The cells of the VCs do not exist or do not fit.
        """
        rows_of, shares_of = rows_by_tenant(snapshot.jobs, tenants), self._shares_of(snapshot.nodes)
        owners = decide_owners(
            tenants,
            snapshot.quotas,
            lambda tenant, *left: decide_quota(snapshot, rows_of[tenant.name], tenant, shares_of[tenant.name], *left),
        )
        tenant_of = tenant_of_jobs(len(snapshot.jobs), rows_of)
        opportunistic = may_be_opportunistic(snapshot.jobs, tenant_of, self._declared)
        outside = next(tenant for tenant in tenants if tenant.name == OUTSIDE)
        guaranteed, within = _placed(snapshot, owners.parts, opportunistic, outside)
        waits, placed = snapshot.jobs.state == JobState.WAITING, _are(snapshot, guaranteed.placed)
        takes_part = np.where(waits, (opportunistic | belongs_to_none(tenant_of)) & ~placed, ~within)
        parts = (*owners.parts, decide_opportunistic(snapshot, guaranteed, takes_part, outside, owners))
        return joined_plan(snapshot, tenant_of, guaranteed, parts), parts

    def _shares_of(self, nodes: Nodes) -> Mapping[str, GpuShare]:
        if (shape := shape_of(nodes)) != self._shape:
            self._shares, self._shape = shares(CellState(cell_specification(nodes, self._declared))), shape
        return self._shares


def _placed(
    snapshot: Snapshot, parts: Sequence[PoolDecision], opportunistic: Bools, outside: TenantPolicy
) -> tuple[GuaranteedStarts, Bools]:
    """Place the waiting jobs within the quotas. Returns also which jobs are within them, shape (jobs,)."""
    jobs = snapshot.jobs
    demoted = {job: other for part in parts for job, other in preempted_for(part).items()}
    within = _are(snapshot, _selected(parts) - demoted.keys())
    ends = _are(snapshot, demoted.keys()) & ~opportunistic
    waits = within & (jobs.state == JobState.WAITING)
    beyond = {job for job, own in zip(jobs.id, within.tolist(), strict=True) if not own}
    shown = replace(
        jobs,
        state=np.where(ends, int(JobState.RELEASING), jobs.state),
        movable=is_reclaimable(jobs) & ~within,
        eligible=jobs.eligible & within,
    )
    config = replace(outside.config, admission="shared")
    plan = decide(replace(snapshot, jobs=shown), config, _InOrder(outside, waits))
    return GuaranteedStarts(
        _demand(snapshot, plan, beyond & may_be_removed(snapshot)),
        starts=list(plan.starts),
        reserved=list(plan.reserved),
        preempted={job: demoted[job] for job in _ids(snapshot, ends)}
        | {each.job: each.beneficiary for each in plan.preemptions},
        unbound=set(_ids(snapshot, waits)) - {start.job for start in (*plan.starts, *plan.reserved)},
    ), within


def _demand(snapshot: Snapshot, plan: Plan, removable: Set[str]) -> HardwareDemand:
    """Return what the plan promises, on GPUs that are free or that removable jobs hold."""
    found = HardwareDemand(snapshot, removable)
    request = dict(zip(snapshot.jobs.id, snapshot.jobs.request, strict=True))
    for start in (*plan.starts, *plan.reserved):
        found.promise(request[start.job], start.nodes)
    return found


def _selected(parts: Sequence[PoolDecision]) -> set[str]:
    """Return the ids of the jobs that hold some of their VC's quota, or are to hold it."""
    found: set[str] = set()
    for part in parts:
        ids, held = part.snapshot.jobs.id, part.snapshot.allocations.job
        found |= {ids[row] for row in held.tolist()} | {start.job for start in selected_by(part)}
    return found


def _ids(snapshot: Snapshot, rows: Bools) -> list[str]:
    return [snapshot.jobs.id[row] for row in np.flatnonzero(rows).tolist()]


def _are(snapshot: Snapshot, names: Set[str]) -> Bools:
    return np.array([job in names for job in snapshot.jobs.id], np.bool_)


class _InOrder(Policy):
    """Some waiting jobs first, by submission, then all others by a policy, which neither starves nor weighs anything here."""

    def __init__(self, rest: TenantPolicy, first: Bools) -> None:
        self._rest, self._first = rest, first

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        """Return the order."""
        by_policy: Ints = self._rest.policy.rank(snapshot, config).order
        by_time = ordered([snapshot.jobs.submit], snapshot.jobs.id)
        return Ranking.of([*by_time[self._first[by_time]], *by_policy[~self._first[by_policy]]])
