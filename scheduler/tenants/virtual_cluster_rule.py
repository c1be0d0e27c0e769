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

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from tiresias.scheduler.job_rows import JobRows
from tiresias.scheduler.kept_plans import differ_in_times_only
from tiresias.scheduler.model import Bools, Ints, Jobs, JobState, Plan, Snapshot
from tiresias.scheduler.pool_decisions import IdlePool, KeptDecisions, PoolDecision
from tiresias.scheduler.pool_ranks import PooledJobs, order_among
from tiresias.scheduler.rank.kept_order import KeptOrders
from tiresias.scheduler.tenants.cell_holders import CellHolders, KeptHolderRows
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.cell_report import CellReport, cell_report
from tiresias.scheduler.tenants.cell_rows import CellRows
from tiresias.scheduler.tenants.cells_of_topology import cell_specification, shape_of
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.free_cells import FreeCells
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts, HardwareBinding
from tiresias.scheduler.tenants.kept_rows import KeptRows
from tiresias.scheduler.tenants.kept_starts import KeptStarts, Order
from tiresias.scheduler.tenants.node_conditions import NodeConditions
from tiresias.scheduler.tenants.opportunistic_jobs import decide_opportunistic
from tiresias.scheduler.tenants.own_snapshots import OwnSnapshots
from tiresias.scheduler.tenants.tenant_decision import (
    OwnersDecision,
    TenantDecision,
    decide_owners,
    ranked_by_owners,
    seen_by_owners,
)
from tiresias.scheduler.tenants.tenant_plan import joined_plan
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy, config_inside
from tiresias.scheduler.tenants.tenant_rules import JobTenants, may_be_opportunistic
from tiresias.scheduler.tenants.unchanged_owners import OwnersView, unchanged_owners
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes
from tiresias.scheduler.unchanged_pools import UnchangedPools

_MOST_ROUNDS = 8  # of decisions in which jobs are found that lack hardware


@dataclass
class _Cells:
    """What depends on the nodes alone, with the occupancy of the newest snapshot."""

    key: Hashable
    occupancy: CellOccupancy
    rows: CellRows
    nodes: dict[str, VirtualNodes] = field(default_factory=dict)

    def are_bound_as(self, holders: CellHolders) -> bool:
        """Return whether a decision has left the virtual nodes bound as it found them. Bad hardware may be bound otherwise."""
        if not self.occupancy.clusters.cells.bad.nodes:
            return True
        return all(self.nodes[name].bindings is each for name, each in holders.bindings.items())


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """What the cells were when the newest decision was made, which has left them so."""

    snapshot: Snapshot
    of_jobs: JobTenants
    cells: _Cells
    holders: CellHolders


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """What one decision is made on.

    Attributes:
        snapshot: Jobs, nodes and allocations.
        tenants: The policies of the VCs, and of `OUTSIDE`.
        outside: The latter.
        of_jobs: The VC of each job.
        cells: The cells.
        by_condition: The nodes by what requests demand of them.
        opportunistic: The jobs that may run opportunistically, shape (jobs,).
    """

    snapshot: Snapshot
    tenants: Sequence[TenantPolicy]
    outside: TenantPolicy
    of_jobs: JobTenants
    cells: _Cells
    by_condition: NodeConditions
    opportunistic: Bools


class VirtualClusterRule:
    """The rule. The cells are kept between decisions, which changes no decision while all nodes are healthy.

    Attributes:
        cells_built: How often cells have been built: for the first nodes, and for other ones.

    With bad nodes the kept cells may differ from new ones, as after a restart, in which bad hardware unused cells are bound to. No
    running job loses its cells by that.
    """

    def __init__(self, declared: Sequence[DeclaredTenant]) -> None:
        """`declared`: the VCs. Whether they fit is checked with the first nodes."""
        self._declared = {tenant.name: tenant for tenant in declared}
        self._cells: _Cells | None = None
        self._kept, self._rows = KeptRows(), JobRows()
        self._of_owners, self._of_others = KeptDecisions(self._rows), KeptDecisions(self._rows)
        self._holder_rows = KeptHolderRows()
        self._starts, self._orders = KeptStarts(), KeptOrders(self._rows)
        self._newest: _Shown | None = None
        self._view: OwnersView | None = None
        self.cells_built = 0

    def decide(self, snapshot: Snapshot, tenants: Sequence[TenantPolicy]) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Return the plan of all jobs, and the decisions of which it consists: of each VC, then of the opportunistic jobs.

        Raises:
            UsageError: The cells of the VCs do not fit the nodes.
        """
        given = self._given(snapshot, tenants)
        holders, owners, guaranteed, kept = self._decide_guaranteed(given)
        takes_part = _without_cells(given, holders, guaranteed)
        rest = decide_opportunistic(
            snapshot, guaranteed, takes_part, given.outside, owners, holders.row_of, self._of_others, kept
        )
        if given.cells.are_bound_as(holders):
            self._newest = _Shown(snapshot, given.of_jobs, given.cells, holders)
        plan = joined_plan(snapshot, given.of_jobs, holders.row_of, guaranteed, owners.pools, rest)
        return plan, (*owners.pools.parts, *rest.parts)

    def _given(self, snapshot: Snapshot, tenants: Sequence[TenantPolicy]) -> _Given:
        cells, names = self._cells_of(snapshot), tuple(tenant.name for tenant in tenants)
        self._rows.follow(snapshot.jobs.id)
        of_jobs = self._kept.tenants(snapshot.jobs, names)
        return _Given(
            snapshot,
            tenants,
            next(tenant for tenant in tenants if tenant.name == OUTSIDE),
            of_jobs,
            cells,
            NodeConditions(snapshot.nodes, cells.rows.of_node, self._kept.features(snapshot.nodes.features)),
            may_be_opportunistic(snapshot.jobs, of_jobs, tuple(self._declared.values())),
        )

    def _decide_guaranteed(self, given: _Given) -> tuple[CellHolders, OwnersDecision, GuaranteedStarts, bool]:
        """Return what the VCs decide, what that means on the hardware, and whether the latter is that of the decision before.

        A job that lacks hardware keeps no cells free, unless the policy of its VC has head-of-line blocking: the VC decides once
        more without it.
        """
        holders, again = self._holders(given)
        overtaken = set[str]()
        for _ in range(_MOST_ROUNDS):
            owners = self._decided_by_owners(given, holders, again, overtaken)
            guaranteed, kept = self._starts.of(
                partial(_order, given, owners, self._orders),
                partial(_bound, given, holders, owners),
                only_times_differ=owners.pools.kept,
            )
            more = set() if kept else _overtaken(given, guaranteed, holders.row_of)
            if not more or given.cells.occupancy.outdated:
                break
            overtaken |= more
            holders, again = self._holders_of(given), False
        guaranteed.unbound |= overtaken
        return holders, owners, guaranteed, kept

    def _holders(self, given: _Given) -> tuple[CellHolders, bool]:
        """Return the jobs that hold cells, and whether the snapshot differs from the newest one in service and times only."""
        newest, self._newest = self._newest, None  # nothing is known again unless the decision is made
        same = newest is not None and newest.cells is given.cells and newest.of_jobs is given.of_jobs
        if newest is not None and same and differ_in_times_only(newest.snapshot, given.snapshot):
            return newest.holders, True
        given.cells.occupancy.follow(given.snapshot, given.of_jobs)
        return self._holders_of(given), False

    def _holders_of(self, given: _Given) -> CellHolders:
        cells = given.cells
        free = FreeCells(cells.occupancy.clusters.cells.chains.values(), cells.rows)
        return CellHolders(self._rows.of, cells.occupancy, cells.nodes, given.of_jobs.owners, free, self._holder_rows)

    def _decided_by_owners(
        self, given: _Given, holders: CellHolders, only_times_differ: bool, overtaken: Set[str]
    ) -> OwnersDecision:
        """Let each VC decide on its cells. `overtaken`: jobs that do not start there."""
        snapshot, of_jobs = given.snapshot, given.of_jobs
        seen = _without_starts(seen_by_owners(snapshot.jobs, holders.owns), overtaken, holders.row_of)
        requests = self._kept.distinct(snapshot.jobs.request)
        own = OwnSnapshots(snapshot, seen, given.cells.nodes, of_jobs, holders, requests, given.by_condition)
        changed = given.cells.occupancy.changed
        changed = changed[:0] if only_times_differ else changed
        view, self._view = self._view, None  # nothing is known again unless the decisions are made

        def unchanged(pooled: PooledJobs) -> UnchangedPools | None:
            now = OwnersView(snapshot, holders, own.hardware, pooled, changed)
            return None if view is None else unchanged_owners(now, view, self._rows)

        found = decide_owners(
            snapshot,
            given.tenants,
            of_jobs,
            seen,
            holders.gpus,
            own.of,
            self._of_owners,
            only_times_differ,
            unchanged,
            own.expect,
            ranked_by_owners(snapshot, seen, given.tenants, of_jobs),
        )
        self._view = OwnersView(snapshot, holders, own.hardware, found.pools.ranks.pooled, changed)
        return found

    def report(self, *, trees: bool = True) -> CellReport | None:
        """Return the cells as the newest snapshot shows them; None before the first decision."""
        return None if self._cells is None else cell_report(self._cells.occupancy, trees=trees)

    def _cells_of(self, snapshot: Snapshot) -> _Cells:
        nodes = snapshot.nodes
        key = shape_of(nodes)
        if self._cells is None or self._cells.key != key or self._cells.occupancy.outdated:
            self.cells_built += 1
            occupancy = CellOccupancy(cell_specification(nodes, tuple(self._declared.values())), self._rows)
            rows = CellRows(nodes.name, occupancy.clusters.cells.physical)
            own = {name: VirtualNodes(occupancy, name, nodes, rows) for name in self._declared}
            self._cells = _Cells(key, occupancy, rows, own)
        return self._cells


def _overtaken(given: _Given, guaranteed: GuaranteedStarts, row_of: Mapping[str, int]) -> set[str]:
    """Return the jobs that lack hardware, in VCs in which jobs may overtake one that does not fit."""
    blocked = {tenant.name for tenant in given.tenants if tenant.policy.blocks}
    return {job for job in guaranteed.lacking if given.of_jobs.name(row_of[job]) not in blocked}


def _without_starts(seen: Jobs, names: Set[str], row_of: Mapping[str, int]) -> Jobs:
    """Return jobs of which some may not start."""
    if not names:
        return seen
    eligible = seen.eligible.copy()
    eligible[[row_of[name] for name in names]] = False
    return replace(seen, eligible=eligible)


def _order(given: _Given, owners: OwnersDecision, orders: KeptOrders, chosen: Bools) -> Ints:
    """Return the rows of chosen jobs, shape (jobs,), in the order of the policy of the jobs without cells."""
    config, policy = config_inside(given.outside.config), given.outside.policy
    return order_among(given.snapshot, chosen, config, policy, owners.pools.ranks.pooled.computed, orders)


def _bound(given: _Given, holders: CellHolders, owners: OwnersDecision, order: Order) -> GuaranteedStarts:
    """Bind what the VCs have decided to hardware."""
    cells, places = given.cells, zip(given.of_jobs.owners, owners.pools.parts, strict=True)
    decisions = [TenantDecision(part, cells.nodes[name]) for name, part in places if not isinstance(part, IdlePool)]
    binding = HardwareBinding(given.snapshot, cells.occupancy, holders, given.opportunistic, order, given.by_condition)
    return binding.run(decisions)


def _without_cells(given: _Given, holders: CellHolders, guaranteed: GuaranteedStarts) -> Bools:
    """Return the jobs that hold GPUs without cells, and of the waiting ones those that share what is left, shape (jobs,)."""
    shares = given.opportunistic | (given.of_jobs.of_owner < 0)
    waits, row_of = given.snapshot.jobs.state == JobState.WAITING, holders.row_of
    owns, placed = holders.owns.copy(), np.zeros(len(waits), np.bool_)
    owns[[row_of[job] for job in guaranteed.cells]] = [bool(cells) for cells in guaranteed.cells.values()]
    placed[[row_of[job] for job in guaranteed.placed]] = True
    return np.where(waits, shares & ~placed, ~owns)
