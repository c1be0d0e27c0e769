"""The admission rule `virtual_clusters`: HiveD's virtual clusters (VCs; Zhao et al., OSDI 2020), each with a policy of its own.

1. Each VC decides on its jobs in its own cells, as if it were a cluster of its own. A job that holds cells, or is to start in
   them, is guaranteed: it never waits for another VC's guaranteed job.
2. Jobs that lose their place there go on running opportunistically, until their GPUs are needed. Opportunistic jobs that fit
   into free cells are given cells where they run; if that cannot be, the VC keeps cells free for them.
3. The cells of the other ones are bound to hardware, of which free GPUs are taken before those of opportunistic jobs; these are
   preempted.
4. Opportunistic jobs, also those of no VC, share the rest by the policy of `OUTSIDE`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiresias.scheduler.model import Bools, Floats, JobState, Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.cells_of_topology import cell_specification, shape_of
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts, HardwareBinding
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand, may_be_removed
from tiresias.scheduler.tenants.opportunistic_jobs import decide_opportunistic
from tiresias.scheduler.tenants.tenant_decision import TenantDecision, decide_owners, decide_tenant
from tiresias.scheduler.tenants.tenant_plan import joined_plan
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.tenant_rules import may_be_opportunistic, rows_by_tenant, tenant_of_jobs
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes


@dataclass
class _Cells:
    """What depends on the nodes alone, with the occupancy of the newest snapshot."""

    key: Hashable
    occupancy: CellOccupancy
    nodes: dict[str, VirtualNodes] = field(default_factory=dict)


class VirtualClusterRule:
    """The rule. The cells are kept between decisions, which changes no decision while all nodes are healthy.

    A job that runs on a bad node keeps its cells. Without the kept ones, as after a restart, it may be opportunistic.
    """

    def __init__(self, declared: Sequence[DeclaredTenant]) -> None:
        """`declared`: the VCs. Whether they fit is checked with the first nodes."""
        self._declared = {tenant.name: tenant for tenant in declared}
        self._cells: _Cells | None = None

    def decide(self, snapshot: Snapshot, tenants: Sequence[TenantPolicy]) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Return the plan of all jobs, and the decisions of which it consists: of each VC, then of the opportunistic jobs.

        Raises:
            UsageError: The cells of the VCs do not fit the nodes.
        """
        cells, rows_of = self._cells_of(snapshot), rows_by_tenant(snapshot.jobs, tenants)
        cluster_of = tenant_of_jobs(len(snapshot.jobs), rows_of)
        cells.occupancy.follow(snapshot, dict(zip(snapshot.jobs.id, cluster_of, strict=True)))
        available = _available(snapshot, cells.occupancy)
        owners = decide_owners(
            tenants,
            snapshot.quotas,
            lambda tenant, *left: decide_tenant(
                snapshot, rows_of[tenant.name], tenant, cells.occupancy, cells.nodes[tenant.name], available, *left
            ),
        )
        names = (tenant.name for tenant in tenants if tenant.name != OUTSIDE)
        decisions = [TenantDecision(part, cells.nodes[name]) for part, name in zip(owners.parts, names, strict=True)]
        opportunistic = may_be_opportunistic(snapshot.jobs, cluster_of, tuple(self._declared.values()))
        may_stay = {job for job, may in zip(snapshot.jobs.id, opportunistic.tolist(), strict=True) if may}
        guaranteed = HardwareBinding(snapshot, cells.occupancy, may_stay).run(decisions)
        takes_part = self._without_cells(snapshot, cells.occupancy, guaranteed, opportunistic)
        outside = next(tenant for tenant in tenants if tenant.name == OUTSIDE)
        rest = decide_opportunistic(snapshot, guaranteed, takes_part, outside, owners)
        parts = (*owners.parts, rest)
        return joined_plan(snapshot, cluster_of, guaranteed, parts), parts

    def _cells_of(self, snapshot: Snapshot) -> _Cells:
        nodes = snapshot.nodes
        key = shape_of(nodes)
        if self._cells is None or self._cells.key != key or self._cells.occupancy.outdated:
            occupancy = CellOccupancy(cell_specification(nodes, tuple(self._declared.values())))
            self._cells = _Cells(
                key, occupancy, {name: VirtualNodes(occupancy, name, nodes) for name in self._declared}
            )
        return self._cells

    def _without_cells(
        self, snapshot: Snapshot, occupancy: CellOccupancy, guaranteed: GuaranteedStarts, opportunistic: Bools
    ) -> Bools:
        """Return the jobs that hold GPUs without cells, and the waiting ones that may."""
        jobs, placed = snapshot.jobs, guaranteed.placed
        waits = (jobs.state == JobState.WAITING) & opportunistic
        found = np.zeros(len(jobs), np.bool_)
        for row, job in enumerate(jobs.id):
            cells = guaranteed.cells.get(job, occupancy.is_guaranteed(job))
            found[row] = job not in placed if waits[row] else jobs.state[row] != JobState.WAITING and not cells
        return found


def _available(snapshot: Snapshot, occupancy: CellOccupancy) -> Floats:
    """Return what guaranteed jobs do not hold of each node, shape (nodes, 3): it is free, or may be taken from other jobs."""
    removable = {job for job in may_be_removed(snapshot) if not occupancy.is_guaranteed(job)}
    return HardwareDemand(snapshot, removable).available()
