"""The snapshots on which virtual clusters (VCs) decide: their jobs, on their virtual nodes. What they share is computed once."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import cached_property

import numpy as np

from tiresias.scheduler.model import Ints, Jobs, Quota, Snapshot
from tiresias.scheduler.pools import quota_of_rows
from tiresias.scheduler.table_rows import range_of, rows_of
from tiresias.scheduler.tenants.cell_holders import CellHolders
from tiresias.scheduler.tenants.hardware_demand import may_be_removed
from tiresias.scheduler.tenants.hardware_rows import HardwareRows
from tiresias.scheduler.tenants.tenant_decision import positions
from tiresias.scheduler.tenants.tenant_rules import JobTenants
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes


class OwnSnapshots:
    """The snapshots of the VCs in one decision.

    Args:
        snapshot: All jobs and nodes.
        seen: All jobs, each as its VC sees it.
        nodes: The virtual nodes of each VC.
        of_jobs: The tenants of the jobs.
        holders: The jobs that hold cells.
        pinned: Names of the nodes that are pinned cells, or in one.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        seen: Jobs,
        nodes: Mapping[str, VirtualNodes],
        of_jobs: JobTenants,
        holders: CellHolders,
        pinned: Set[str],
    ) -> None:
        self._time, self._seen, self._nodes, self._of_jobs, self._holders = snapshot.time, seen, nodes, of_jobs, holders
        self._hardware = HardwareRows(snapshot, may_be_removed(snapshot) & ~holders.owns, pinned)

    @cached_property
    def _jobs(self) -> Jobs:
        """The jobs tenant by tenant: those of one VC are a range of each column, which need not be copied."""
        return rows_of(self._seen, self._of_jobs.order)

    @cached_property
    def _position(self) -> Ints:
        """The position of each job among those of its tenant, shape (jobs,)."""
        found = np.empty(len(self._seen), np.int64)
        for rows in self._of_jobs.rows.values():
            found[rows] = np.arange(len(rows))
        return found

    def of(self, name: str, quotas: tuple[Quota, ...]) -> Snapshot:
        """Return the snapshot of a VC. `quotas`: what the VCs before it leave of Slurm's limits."""
        nodes, hardware = self._nodes[name], self._hardware
        nodes.sort(hardware)
        jobs = range_of(self._jobs, self._of_jobs.ranges[name])
        requests = nodes.requests(jobs.request)
        return Snapshot(
            self._time,
            jobs if requests is jobs.request else replace(jobs, request=requests),
            nodes.nodes(hardware),
            nodes.allocations(self._holders.rows[name], self._position, hardware),
            self._quotas(name, quotas) if quotas else (),
        )

    def _quotas(self, name: str, quotas: tuple[Quota, ...]) -> tuple[Quota, ...]:
        position = positions(len(self._seen), self._of_jobs.rows[name])
        return tuple(quota_of_rows(quota, position) for quota in quotas)
