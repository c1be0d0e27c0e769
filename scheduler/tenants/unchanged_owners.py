"""Virtual clusters (VCs) that see what they saw at the decision before, but for service and times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.job_rows import JobRows
from tiresias.scheduler.model import Bools, Ints, Nodes, Snapshot
from tiresias.scheduler.pool_ranks import PooledJobs
from tiresias.scheduler.tenants.cell_holders import CellHolders
from tiresias.scheduler.tenants.hardware_rows import HardwareRows
from tiresias.scheduler.unchanged_pools import JobPairs, UnchangedPools, pools_with_other_jobs

# columns of the nodes by which virtual nodes of any VC may differ
_OF_ALL = ("name", "features", "last_resort", "slowness")


@dataclass(frozen=True, slots=True, eq=False)
class OwnersView:
    """What the VCs see in one decision.

    Attributes:
        snapshot: All jobs and nodes.
        holders: The jobs that hold cells.
        hardware: The nodes.
        pooled: The jobs, each as its VC sees it.
        changed: The rows of the jobs with GPUs that hold something else than at the decision before.
    """

    snapshot: Snapshot
    holders: CellHolders
    hardware: HardwareRows
    pooled: PooledJobs
    changed: Ints


def unchanged_owners(now: OwnersView, before: OwnersView, rows: JobRows) -> UnchangedPools | None:
    """Return the VCs that see what they saw before but for service and times; None: none does. O(jobs + nodes + allocations).

    Args:
        now: The view of this decision.
        before: That of the decision before.
        rows: The rows of the jobs now.
    """
    one, other = now.snapshot, before.snapshot
    same = one.interference is other.interference and one.trained is other.trained
    if one.quotas or other.quotas or not same or not _have_alike(one.nodes, other.nodes):
        return None
    pairs = JobPairs.of(len(one.jobs), rows.now(other.jobs.id))
    changed = pools_with_other_jobs(now.pooled, before.pooled, pairs, _hold_otherwise(now)[pairs.now])
    return UnchangedPools(pairs, ~(changed | _with_other_nodes(now, before)))


def _hold_otherwise(now: OwnersView) -> Bools:
    """Return the jobs that hold something else than before, shape (jobs,). Of allocations without a GPU it is not known."""
    found, held = np.zeros(len(now.snapshot.jobs), np.bool_), now.snapshot.allocations
    found[now.changed] = True
    found[held.job[held.resources["gpus"] < 1]] = True
    return found


def _have_alike(one: Nodes, other: Nodes) -> bool:
    pairs = ((getattr(one, name), getattr(other, name)) for name in _OF_ALL)
    return all(a is b or (type(a) is type(b) and np.array_equal(a, b)) for a, b in pairs)


def _with_other_nodes(now: OwnersView, before: OwnersView) -> Bools:
    """Return the VCs whose virtual nodes are bound or held otherwise, or whose hardware has other free resources."""
    bindings, known = now.holders.bindings, before.holders.bindings
    found = np.array([known.get(name) is not each for name, each in bindings.items()], np.bool_)
    one, other = now.hardware, before.hardware
    differs = (one.available != other.available).any(axis=1) | (one.managed_gpus != other.managed_gpus)
    count = [len(each.row) for each in bindings.values()]
    row = np.concatenate([each.row for each in bindings.values()])
    owner = np.repeat(np.arange(len(count)), count)
    found[owner[(row >= 0) & differs[row]]] = True
    if one.suitable.conditions:
        found |= _with_other_suitable_nodes(now, before, np.bincount(owner[row < 0], minlength=len(count)))
    return found


def _with_other_suitable_nodes(now: OwnersView, before: OwnersView, nodes: Ints) -> Bools:
    """Return the VCs of whose unbound virtual nodes others can suit a job. `nodes`: their number in each VC."""
    unbound = now.holders.unbound()
    levels = dict.fromkeys(level for each in unbound for level in each)
    pairs = now.hardware.suitable.other_counts(before.hardware.suitable, levels)
    found = (
        any(one.differ_for(other, cells, count) for level, cells in each.items() for one, other in pairs[level])
        for each, count in zip(unbound, nodes.tolist(), strict=True)
    )
    return np.fromiter(found, np.bool_, len(unbound))
