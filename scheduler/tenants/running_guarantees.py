"""Which running jobs would lose the cells that they hold, if the virtual clusters (VCs) owned other cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Ints, JobState, Snapshot
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.tenant_rules import tenants_by_name


def lost_guarantees(
    snapshot: Snapshot, declared: Sequence[DeclaredTenant], cluster_of: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the ids of the running jobs that hold cells now and would hold none.

    Args:
        snapshot: Jobs, nodes and allocations, with the cells that jobs hold.
        declared: The VCs as they would be.
        cluster_of: The VC of each job as it would be, by id.

    Raises:
        UsageError: The cells do not exist or do not fit the nodes.
    """
    occupancy = CellOccupancy(cell_specification(snapshot.nodes, declared))
    clusters = tuple(cluster_of[job] for job in snapshot.jobs.id)
    names = (*(tenant.name for tenant in declared), OUTSIDE)
    occupancy.follow(snapshot, tenants_by_name(replace(snapshot.jobs, virtual_cluster=clusters), names))
    return tuple(job for job in guaranteed_jobs(snapshot) if not occupancy.is_guaranteed(job))


def guaranteed_jobs(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the ids of the running jobs that hold GPUs in cells of their VC alone."""
    return tuple(snapshot.jobs.id[row] for row in _guaranteed(snapshot).tolist())


def _guaranteed(snapshot: Snapshot) -> Ints:
    """Return the rows of the jobs that hold GPUs in cells of their VC alone."""
    jobs, held = snapshot.jobs, snapshot.allocations
    owned = np.array([bool(cell) for cell in held.owned_cell or ("",) * len(held.job)], np.bool_)
    holds, without = np.zeros(len(jobs), np.bool_), np.zeros(len(jobs), np.bool_)
    holds[held.job], without[held.job[~owned]] = True, True
    return np.flatnonzero(holds & ~without & (jobs.state != JobState.RELEASING))
