"""The decision on one virtual cluster (VC) under a quota: which of its jobs hold its GPUs, wherever these are.

The VC's GPUs of one type are one node here, so numbers alone decide. Which running jobs are within the quota follows from the
snapshot: the first ones in the order of the VC's policy. The others take part as waiting ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import ANYWHERE, Allocations, Ints, Jobs, JobState, Nodes, Quota, Request, Snapshot
from tiresias.scheduler.place.free_capacity import GPUS
from tiresias.scheduler.pools import NodePool, PoolDecision, numbered, quota_of_rows, rows_of
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.tenants.tenant_decision import jobs_of_tenant, positions
from tiresias.scheduler.tenants.tenant_rule import TenantPolicy
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


def decide_quota(
    snapshot: Snapshot,
    rows: Ints,
    tenant: TenantPolicy,
    share: GpuShare,
    quotas: tuple[Quota, ...],
    queues_before: int,
) -> PoolDecision:
    """Decide on the jobs of one VC.

    Args:
        snapshot: All jobs and nodes.
        rows: The rows of the VC's jobs, rising.
        tenant: Its policy.
        share: The GPUs that it owns.
        quotas: What other tenants leave of Slurm's limits.
        queues_before: Queues of other tenants, which are counted first where a queue is named.
    """
    jobs = snapshot.jobs
    config = replace(tenant.config, admission="shared", defragment=0)
    uses = _uses(snapshot, rows, share)
    shown = Snapshot(snapshot.time, rows_of(jobs, rows), _nodes(share, uses[:0]), _allocations([], uses))
    within = _within(shown.jobs.state, tenant.policy.rank(shown, config).order, uses, share)
    own = Snapshot(
        snapshot.time,
        _bound_to_types(jobs_of_tenant(jobs, rows, within, request_in_quota), uses, share),
        _nodes(share, uses[within]),
        _allocations(within, uses),
        tuple(quota_of_rows(quota, positions(len(jobs), rows)) for quota in quotas),
    )
    pool = NodePool(rows, np.empty(0, np.int64), config, tenant.policy, queues_before)
    return PoolDecision(pool, own, numbered(decide(own, config, tenant.policy), own, pool))


@lru_cache(maxsize=4096)
def request_in_quota(request: Request) -> Request:
    """Return what a request demands of a quota; what it demands of nodes is checked when it is placed."""
    return Request(gpu_type=request.gpu_type) if request.gpu_type else ANYWHERE


def _bound_to_types(jobs: Jobs, uses: Ints, share: GpuShare) -> Jobs:
    """Return the jobs; one that runs takes part with GPUs of the type that it holds most of, "other" where none is owned."""
    names = (*share.types, "other")
    most, runs = uses.argmax(axis=1).tolist(), (uses.sum(axis=1) > 0).tolist()
    typed = zip(jobs.request, most, runs, strict=True)
    return replace(jobs, request=tuple(Request(gpu_type=names[at]) if held else one for one, at, held in typed))


def _uses(snapshot: Snapshot, rows: Ints, share: GpuShare) -> Ints:
    """Return the GPUs of each type that each of the jobs holds, then those of all other types; shape (rows, types + 1)."""
    column = {kind: at for at, kind in enumerate(share.types)}
    of_node = np.array([column.get(kind, len(column)) for kind in snapshot.nodes.gpu_type], np.int64)
    held, found = snapshot.allocations, np.zeros((len(snapshot.jobs), len(column) + 1), np.int64)
    np.add.at(found, (held.job, of_node[held.node]), held.resources.amount[:, GPUS].astype(np.int64))
    return found[rows]


def _within(state: Ints, order: Ints, uses: Ints, share: GpuShare) -> list[int]:
    """Return the running jobs that are within the quota: each one, in the order of the ranks, that still fits."""
    left = np.array([*share.gpus, 0], np.int64)
    found = []
    for row in order[np.isin(state[order], (JobState.RUNNING, JobState.STARTING))].tolist():
        if (uses[row] <= left).all():
            left -= uses[row]
            found.append(row)
    return sorted(found)


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
