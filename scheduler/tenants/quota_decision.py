"""The decision on one virtual cluster (VC) under a quota: which of its jobs hold its GPUs, wherever these are.

The VC's GPUs of one type are one node here, so numbers alone decide. Which running jobs are within the quota follows from the
snapshot: the first ones in the order of the VC's policy. The others take part as waiting ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from tiresias.scheduler.idle_pools import PooledGpus
from tiresias.scheduler.model import ANYWHERE, Allocations, Bools, Ints, Jobs, JobState, Nodes, Quota, Request, Snapshot
from tiresias.scheduler.place.free_capacity import GPUS
from tiresias.scheduler.pool_ranks import PooledJobs, PoolRanks
from tiresias.scheduler.pools import quota_of_rows
from tiresias.scheduler.rank.idle_gpus import ranking_of
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.table_rows import rows_of
from tiresias.scheduler.tenants.tenant_decision import OwnersDecision, decide_owners, positions, seen_by_owners
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy, config_of_owner
from tiresias.scheduler.tenants.tenant_rules import JobTenants
from tiresias.scheduler.topology_tree import Topology
from tiresias.scheduler.virtual_clusters.cell_state import CellState


@dataclass(frozen=True, slots=True)
class GpuShare:
    """The GPUs that a VC owns.

    Attributes:
        types: GPU types.
        gpus: Number of GPUs of each type.
    """

    types: tuple[str, ...]
    gpus: tuple[int, ...]


def shares(state: CellState) -> Mapping[str, GpuShare]:
    """Return the GPUs in the cells of each VC."""
    found: dict[str, GpuShare] = {}
    for name, tree in state.clusters.items():
        gpus: dict[str, int] = {}
        for chain, counts in tree.owned.items():
            levels = state.levels[chain]
            kind = "" if levels.leaf_type == "gpu" else levels.leaf_type
            owned = sum(counts[level] * levels.at(level).leaves for level in range(1, levels.top + 1))
            gpus[kind] = gpus.get(kind, 0) + owned
        found[name] = GpuShare(tuple(gpus), tuple(gpus.values()))
    return found


def decide_quotas(
    snapshot: Snapshot, tenants: Sequence[TenantPolicy], of_jobs: JobTenants, shares_of: Mapping[str, GpuShare]
) -> tuple[OwnersDecision, Bools]:
    """Decide on the jobs of all VCs. Returns also which jobs hold some of their VC's quota, shape (jobs,).

    Args:
        snapshot: All jobs and nodes.
        tenants: The VCs, and `OUTSIDE`.
        of_jobs: The tenant of each job.
        shares_of: The GPUs that each VC owns.
    """
    uses = _Uses(snapshot)
    used = {name: uses.of(of_jobs.rows[name], shares_of[name]) for name in of_jobs.owners}
    within = _within(snapshot, tenants, of_jobs, shares_of, used)
    is_within, holds = (np.zeros(len(snapshot.jobs), np.bool_) for _ in range(2))
    for name, at in within.items():
        is_within[of_jobs.rows[name][at]] = True
        holds[of_jobs.rows[name][at]] = used[name][at, :-1].any(axis=1)
    seen = replace(seen_by_owners(snapshot.jobs, is_within), request=_requests(snapshot.jobs, of_jobs, shares_of, used))

    def own_snapshot(name: str, quotas: tuple[Quota, ...]) -> Snapshot:
        rows, share = of_jobs.rows[name], shares_of[name]
        position = positions(len(seen), rows)
        return Snapshot(
            snapshot.time,
            rows_of(seen, rows),
            _nodes(share, used[name][within[name]]),
            _allocations(within[name], used[name]),
            tuple(quota_of_rows(quota, position) for quota in quotas),
        )

    gpus = partial(_gpus, of_jobs, shares_of, used, within)
    return decide_owners(snapshot, tenants, of_jobs, seen, gpus, own_snapshot), holds


def _gpus(
    of_jobs: JobTenants, shares_of: Mapping[str, GpuShare], used: Mapping[str, Ints], within: Mapping[str, list[int]]
) -> PooledGpus:
    """Return what the VCs own, and what the jobs within the quotas hold of it."""
    names = of_jobs.owners
    total = np.array([sum(shares_of[name].gpus) for name in names], np.int64)
    held = [used[name][within[name], :-1].sum(axis=1) for name in names]
    job = [of_jobs.rows[name][within[name]] for name in names]
    free = total - np.array([each.sum() for each in held])
    return PooledGpus(total, free.astype(np.float64), np.concatenate(job), np.concatenate(held).astype(np.float64))


def _requests(
    jobs: Jobs, of_jobs: JobTenants, shares_of: Mapping[str, GpuShare], used: Mapping[str, Ints]
) -> tuple[Request, ...]:
    """Return the requests; a job that runs takes part with GPUs of the type that it holds most of, "other" where none is owned."""
    in_quota = {id(each): request_in_quota(each) for each in {id(each): each for each in jobs.request}.values()}
    found = [in_quota[id(each)] for each in jobs.request]
    for name in of_jobs.owners:
        kinds, rows = (*shares_of[name].types, "other"), of_jobs.rows[name]
        runs = np.flatnonzero(used[name].any(axis=1))
        for row, at in zip(rows[runs].tolist(), used[name][runs].argmax(axis=1).tolist(), strict=True):
            found[row] = _request_of_type(kinds[at])
    return tuple(found)


@lru_cache(maxsize=4096)
def request_in_quota(request: Request) -> Request:
    """Return what a request demands of a quota; what it demands of nodes is checked when it is placed."""
    return _request_of_type(request.gpu_type) if request.gpu_type else ANYWHERE


@lru_cache(maxsize=256)
def _request_of_type(gpu_type: str) -> Request:
    return Request(gpu_type=gpu_type)


class _Uses:
    """The GPUs of each type that each job holds."""

    def __init__(self, snapshot: Snapshot) -> None:
        held, types = snapshot.allocations, snapshot.nodes.gpu_type
        column = {kind: at for at, kind in enumerate(dict.fromkeys(types))}
        of_node, count = np.array([column[kind] for kind in types], np.int64), len(snapshot.jobs)
        place = held.job * len(column) + of_node[held.node]
        gpus = np.trunc(held.resources.amount[:, GPUS])
        self._gpus = np.bincount(place, gpus, count * len(column)).astype(np.int64).reshape(count, len(column))
        self._column = column

    def of(self, rows: Ints, share: GpuShare) -> Ints:
        """Return the GPUs of each owned type that jobs hold, then those of all other types; shape (rows, types + 1)."""
        gpus = self._gpus[rows]
        owned = [
            gpus[:, self._column[kind]] if kind in self._column else np.zeros(len(rows), np.int64)
            for kind in share.types
        ]
        return np.stack((*owned, gpus.sum(axis=1) - sum(owned)), axis=1)


def _within(
    snapshot: Snapshot,
    tenants: Sequence[TenantPolicy],
    of_jobs: JobTenants,
    shares_of: Mapping[str, GpuShare],
    used: Mapping[str, Ints],
) -> dict[str, list[int]]:
    """Return the running jobs of each VC that are within its quota: each one, in the order of the ranks, that still fits."""
    owners = [tenant for tenant in tenants if tenant.name != OUTSIDE]
    stages = [(config_of_owner(tenant.config), tenant.policy) for tenant in owners]
    ranks = PoolRanks(PooledJobs(snapshot.time, snapshot.jobs, of_jobs.of_owner, stages))
    holds = np.isin(snapshot.jobs.state, (JobState.RUNNING, JobState.STARTING))
    found: dict[str, list[int]] = {}
    for at, (tenant, (config, policy)) in enumerate(zip(owners, stages, strict=True)):
        rows, uses, share = of_jobs.rows[tenant.name], used[tenant.name], shares_of[tenant.name]
        left, running = np.array([*share.gpus, 0], np.int64), np.flatnonzero(holds[rows])
        if (uses[running].sum(axis=0) > left).any():
            ranking = ranks.of(at, rows)
            if ranking is None:
                shown = Snapshot(
                    snapshot.time, rows_of(snapshot.jobs, rows), _nodes(share, uses[:0]), _allocations([], uses)
                )
                ranking = ranking_of(policy, shown, config)
            running = _that_fit(ranking.order[holds[rows][ranking.order]], uses, left)
        found[tenant.name] = running.tolist()
    return found


def _that_fit(order: Ints, uses: Ints, left: Ints) -> Ints:
    """Return the jobs, in order, that fit into what is left; sorted by row."""
    found = []
    for row in order.tolist():
        if (uses[row] <= left).all():
            left -= uses[row]
            found.append(row)
    return np.array(sorted(found), np.int64)


def _nodes(share: GpuShare, used: Ints) -> Nodes:
    """Return a node for each GPU type. `used`: GPUs that jobs hold, shape (jobs, types + 1)."""
    gpus, count = np.array(share.gpus, np.int64), len(share.gpus)
    unlimited = np.full(count, np.inf)
    free = Resources.of(gpus - used[:, :count].sum(axis=0), unlimited, unlimited)
    names = tuple(f"quota{at}" for at in range(count))
    usable, nothing = np.ones(count, np.bool_), (frozenset[str](),) * count
    return Nodes(names, gpus, free, usable, Topology.of_groups(gpus), share.types, nothing)


def _allocations(rows: Sequence[int], uses: Ints) -> Allocations:
    """Return what the jobs of these rows hold."""
    job, node = np.nonzero(uses[rows, :-1])
    nothing = np.zeros(len(job))
    return Allocations(np.array(rows, np.int64)[job], node, Resources.of(uses[rows][job, node], nothing, nothing))
