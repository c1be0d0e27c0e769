"""A static partition: each virtual cluster (VC) has nodes of its own, which no other tenant uses.

The cells of the VCs are taken once, the largest level first, as if all nodes were healthy and idle. So the partition follows from
the names, the GPUs and the topology of the nodes alone. A VC whose node is down waits for it, although other nodes may be idle.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Bools, Ints, Nodes, Plan, Snapshot
from tiresias.scheduler.pools import NodePool, PoolDecision, decide_pools, rows_of
from tiresias.scheduler.rank.policy import natural
from tiresias.scheduler.tenants.cell_report import CellReport
from tiresias.scheduler.tenants.cells_of_topology import cell_specification, shape_of
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy, config_inside
from tiresias.scheduler.tenants.tenant_rules import tenants_of
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell
from tiresias.scheduler.virtual_clusters.cell_chains import CellChain
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.scheduler.virtual_clusters.chain_state import ChainState

_WHOLE = "private_clusters gives whole nodes to each virtual cluster"


class PrivateClusters:
    """The admission rule `private_clusters`: a pool of nodes for each VC, and one of the nodes that no VC owns."""

    def __init__(self, declared: Sequence[DeclaredTenant]) -> None:
        self._declared = tuple(declared)
        self._shape: Hashable = None
        self._nodes: Mapping[str, Ints] = {}

    def decide(self, snapshot: Snapshot, tenants: Sequence[TenantPolicy]) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Return the plans of all pools. A job on nodes of another pool, from before a change of the configuration, keeps them
        until it ends: it is not preempted.

        Raises:
            UsageError: The cells of the VCs do not fit into the nodes.
        """
        nodes, jobs = self._partition(snapshot.nodes), tenants_of(snapshot.jobs, tenants).rows
        pools = [_pool(tenant, jobs[tenant.name], nodes[tenant.name]) for tenant in tenants]
        movable = snapshot.jobs.movable & ~_elsewhere(snapshot, pools)
        return decide_pools(replace(snapshot, jobs=replace(snapshot.jobs, movable=movable)), pools)

    @property
    def cells_built(self) -> int:
        """Return 0: no cells are kept."""
        return 0

    def report(self, *, trees: bool = True) -> CellReport | None:
        """Return None: no cells are bound."""
        return None

    def _partition(self, nodes: Nodes) -> Mapping[str, Ints]:
        """Return the rows of the nodes of each VC and of `OUTSIDE`, rising. Computed once for the same nodes."""
        shape = shape_of(nodes)
        if shape != self._shape:
            self._nodes, self._shape = partition(nodes, self._declared), shape
        return self._nodes


def partition(nodes: Nodes, declared: Sequence[DeclaredTenant]) -> dict[str, Ints]:
    """Return the rows of the nodes of each VC, and of `OUTSIDE`, rising. The order of the rows decides nothing.

    Raises:
        UsageError: The cells of the VCs do not exist or do not fit.
    """
    row_of = {name: row for row, name in enumerate(nodes.name)}
    owner = np.full(len(nodes), -1, np.int64)
    state = CellState(cell_specification(_by_name(nodes), declared))
    names = list(state.clusters)
    for at, tree in enumerate(state.clusters.values()):
        for virtual in tree.pinned.values():
            owner[[row_of[node] for node in _whole_nodes(virtual)]] = at
    for chain in state.chains.values():
        for level in range(chain.chain.top, 0, -1):
            for at, name in enumerate(names):
                count = chain.owned_free.get(name, {level: 0})[level]
                if count:
                    _check_whole(name, chain.chain, level)
                for _ in range(count):
                    owner[[row_of[node] for node in _taken(chain, level).nodes]] = at
    found = {name: np.flatnonzero(owner == at) for at, name in enumerate(names)}
    return {**found, OUTSIDE: np.flatnonzero(owner < 0)}


def _whole_nodes(virtual: VirtualCell) -> tuple[str, ...]:
    """Return the nodes of a pinned cell."""
    _check_whole(virtual.cluster, virtual.chain, virtual.level)
    return virtual.physical.nodes if virtual.physical is not None else ()


def _check_whole(cluster: str, chain: CellChain, level: int) -> None:
    if level < chain.node_level:
        kind = chain.at(level).cell_type
        raise UsageError(f"virtual cluster {cluster} owns cells of type {kind}, which are parts of nodes: {_WHOLE}")


def _taken(chain: ChainState, level: int) -> PhysicalCell:
    """Take a cell of a level: a free one, else a part of the smallest free cell above. `CellState` has checked that it exists."""
    above = next(each for each in range(level, chain.chain.top + 1) if len(chain.free[each]))
    cell = min(chain.free[above], key=lambda each: each.number)
    while cell.level > level:
        cell = cell.children[0]
    chain.take(cell)
    return cell


def _by_name(nodes: Nodes) -> Nodes:
    """Return the nodes sorted by name."""
    return rows_of(nodes, np.array(sorted(range(len(nodes)), key=lambda row: natural(nodes.name[row])), np.int64))


def _pool(tenant: TenantPolicy, jobs: Ints, nodes: Ints) -> NodePool:
    note = f"virtual cluster {tenant.name}" if tenant.name != OUTSIDE else ""
    return NodePool(jobs, nodes, config_inside(tenant.config), tenant.policy, note=note)


def _elsewhere(snapshot: Snapshot, pools: Sequence[NodePool]) -> Bools:
    """Jobs that hold something on a node of another pool than their own; shape (jobs,)."""
    of_job, of_node = np.zeros(len(snapshot.jobs), np.int64), np.zeros(len(snapshot.nodes), np.int64)
    for at, pool in enumerate(pools):
        of_job[pool.jobs], of_node[pool.nodes] = at, at
    held = snapshot.allocations
    found = np.zeros(len(snapshot.jobs), np.bool_)
    found[held.job[of_job[held.job] != of_node[held.node]]] = True
    return found
