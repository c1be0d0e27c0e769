"""The admission rule `gpu_quotas`: each virtual cluster (VC) is promised a number of GPUs, on any nodes.

1. Each VC decides, by numbers of GPUs and with its own policy, which of its jobs are within its quota.
2. These are placed: on free GPUs, else on those of running jobs beyond the quotas, which are preempted. No job within a quota is
   preempted for one of another VC, so a job within its quota waits where the free GPUs are scattered: the sharing anomaly (HiveD,
   Zhao et al., OSDI 2020).
3. All other jobs share the rest by the policy of `OUTSIDE`.

It is what quotas of other schedulers do, and a baseline for `virtual_clusters`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Bools, Ints, JobState, Nodes, Plan, Snapshot, Start
from tiresias.scheduler.pool_decisions import PoolDecision, PoolDecisions
from tiresias.scheduler.rank.policy import Policy, Ranking, ordered
from tiresias.scheduler.tenants.cell_report import CellReport
from tiresias.scheduler.tenants.cells_of_topology import cell_specification, shape_of
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand, is_reclaimable, may_be_removed
from tiresias.scheduler.tenants.opportunistic_jobs import decide_opportunistic
from tiresias.scheduler.tenants.quota_decision import GpuShare, decide_quotas, shares
from tiresias.scheduler.tenants.tenant_decision import preempted_for, selected_by
from tiresias.scheduler.tenants.tenant_plan import joined_plan
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy, config_inside
from tiresias.scheduler.tenants.tenant_rules import may_be_opportunistic, tenants_of
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
        of_jobs, shares_of = tenants_of(snapshot.jobs, tenants), self._shares_of(snapshot.nodes)
        row_of = {job: row for row, job in enumerate(snapshot.jobs.id)}
        owners, holds = decide_quotas(snapshot, tenants, of_jobs, shares_of)
        opportunistic = may_be_opportunistic(snapshot.jobs, of_jobs, self._declared)
        outside = next(tenant for tenant in tenants if tenant.name == OUTSIDE)
        guaranteed, within = _placed(snapshot, owners.pools, holds, opportunistic, outside, row_of)
        waits, placed = snapshot.jobs.state == JobState.WAITING, _are(row_of, guaranteed.placed)
        shares = opportunistic | (of_jobs.of_owner < 0)
        takes_part = np.where(waits, shares & ~placed, ~within)
        rest = decide_opportunistic(snapshot, guaranteed, takes_part, outside, owners, row_of)
        plan = joined_plan(snapshot, of_jobs, row_of, guaranteed, owners.pools, rest)
        return plan, (*owners.pools.parts, *rest.parts)

    @property
    def cells_built(self) -> int:
        """Return 0: no cells are kept."""
        return 0

    def report(self, *, trees: bool = True) -> CellReport | None:
        """Return None: no cells are bound."""
        return None

    def _shares_of(self, nodes: Nodes) -> Mapping[str, GpuShare]:
        if (shape := shape_of(nodes)) != self._shape:
            self._shares, self._shape = shares(CellState(cell_specification(nodes, self._declared))), shape
        return self._shares


def _placed(
    snapshot: Snapshot,
    owners: PoolDecisions,
    holds: Bools,
    opportunistic: Bools,
    outside: TenantPolicy,
    row_of: Mapping[str, int],
) -> tuple[GuaranteedStarts, Bools]:
    """Place the waiting jobs within the quotas. Returns also which jobs are within them, shape (jobs,).

    Args:
        snapshot: All jobs and nodes.
        owners: The decisions of the VCs.
        holds: The jobs that hold some of their VC's quota, shape (jobs,).
        opportunistic: Those that may run beyond it, shape (jobs,).
        outside: The policy of the jobs beyond the quotas.
        row_of: The row of each job.
    """
    jobs = snapshot.jobs
    demoted = {job: other for part in owners.busy for job, other in preempted_for(part).items()}
    selected = [start.job for part in owners.busy for start in selected_by(part, row_of)]
    loses = _are(row_of, demoted)
    within = (holds | _are(row_of, selected)) & ~loses
    ends = loses & ~opportunistic
    waits = within & (jobs.state == JobState.WAITING)
    preempted = {job: demoted[job] for job in _ids(snapshot, ends)}
    if not waits.any():
        return GuaranteedStarts(_demand(snapshot, (), ~within, row_of), preempted=preempted), within
    shown = replace(
        jobs,
        state=np.where(ends, int(JobState.RELEASING), jobs.state),
        movable=is_reclaimable(jobs) & ~within,
        eligible=jobs.eligible & within,
    )
    plan = decide(replace(snapshot, jobs=shown), _between_quotas(outside.config), _InOrder(outside, waits))
    return GuaranteedStarts(
        _demand(snapshot, (*plan.starts, *plan.reserved), ~within, row_of),
        starts=list(plan.starts),
        reserved=list(plan.reserved),
        preempted=preempted | {each.job: each.beneficiary for each in plan.preemptions},
        unbound=set(_ids(snapshot, waits)) - {start.job for start in (*plan.starts, *plan.reserved)},
    ), within


def _between_quotas(config: PolicyConfig) -> PolicyConfig:
    """Return the configuration by which jobs within quotas are placed: as in `virtual_clusters`, no minimum run time protects the
    jobs beyond the quotas from them."""
    return replace(config_inside(config), min_run=0.0, min_run_cost_factor=0.0)


def _demand(snapshot: Snapshot, starts: Iterable[Start], beyond: Bools, row_of: Mapping[str, int]) -> HardwareDemand:
    """Return what starts are promised, on GPUs that are free or that jobs beyond the quotas hold and may lose."""
    found = HardwareDemand(snapshot, beyond & may_be_removed(snapshot))
    for start in starts:
        found.promise(snapshot.jobs.request[row_of[start.job]], start.nodes)
    return found


def _ids(snapshot: Snapshot, rows: Bools) -> list[str]:
    return [snapshot.jobs.id[row] for row in np.flatnonzero(rows).tolist()]


def _are(row_of: Mapping[str, int], names: Iterable[str]) -> Bools:
    """Return which jobs have these ids, shape (jobs,)."""
    found = np.zeros(len(row_of), np.bool_)
    found[[row_of[name] for name in names]] = True
    return found


class _InOrder(Policy):
    """Some waiting jobs first, by submission, then all others by a policy, which neither starves nor weighs anything here."""

    def __init__(self, rest: TenantPolicy, first: Bools) -> None:
        self._rest, self._first = rest, first

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        """Return the order."""
        by_policy: Ints = self._rest.policy.rank(snapshot, config).order
        by_time = ordered([snapshot.jobs.submit], snapshot.jobs.id)
        return Ranking.of(np.concatenate((by_time[self._first[by_time]], by_policy[~self._first[by_policy]])))
