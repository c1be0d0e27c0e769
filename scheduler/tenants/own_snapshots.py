"""The snapshots on which virtual clusters (VCs) decide: their jobs, on their virtual nodes.

The columns of all VCs that are known to be read are computed at once, when the first one is: a call of numpy costs about as much
for one VC as for a hundred. The snapshot of a VC has ranges of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from tiresias.scheduler.model import Allocations, Bools, Floats, Jobs, Nodes, Quota, Request, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED, GPUS
from tiresias.scheduler.pools import quota_of_rows
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.table_rows import range_of, rows_of
from tiresias.scheduler.tenants.cell_holders import CellHolders
from tiresias.scheduler.tenants.hardware_demand import may_be_removed
from tiresias.scheduler.tenants.hardware_rows import HardwareRows
from tiresias.scheduler.tenants.node_conditions import NodeConditions
from tiresias.scheduler.tenants.tenant_decision import positions
from tiresias.scheduler.tenants.tenant_rules import JobTenants
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes

_NO_JOBS = np.empty(0, np.int64)


class OwnSnapshots:
    """The snapshots of the VCs in one decision. They depend on what is given here alone, not on later changes of the cells.

    Attributes:
        hardware: The nodes.

    Args:
        snapshot: All jobs and nodes.
        seen: All jobs, each as its VC sees it.
        nodes: The virtual nodes of each VC.
        of_jobs: The tenants of the jobs.
        holders: The jobs that hold cells.
        requests: The different requests of the jobs.
        by_condition: The nodes by conditions.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        seen: Jobs,
        nodes: Mapping[str, VirtualNodes],
        of_jobs: JobTenants,
        holders: CellHolders,
        requests: Sequence[Request],
        by_condition: NodeConditions,
    ) -> None:
        self._time, self._seen, self._nodes, self._of_jobs, self._holders = snapshot.time, seen, nodes, of_jobs, holders
        self._distinct_requests, self._interference = requests, snapshot.interference
        self._trained = snapshot.trained
        self._columns_of: dict[str, _OwnColumns] = {}
        self._jobs_of: dict[str, Jobs] = {}
        removable = may_be_removed(snapshot) & ~holders.owns
        self.hardware = HardwareRows(snapshot, removable, by_condition, holders.free_cells, requests)

    @cached_property
    def _names_hardware(self) -> bool:
        """Whether the request of a job may be another one for virtual nodes."""
        return any(map(_names_hardware, self._distinct_requests))

    def expect(self, names: Sequence[str]) -> None:
        """Name the VCs whose snapshots will be read."""
        columns = _OwnColumns(self.hardware, self._holders, names)
        self._columns_of = dict.fromkeys(names, columns)
        if names:
            self._jobs_of = self._jobs_of_all(names)

    def _jobs_of_all(self, names: Sequence[str]) -> dict[str, Jobs]:
        """Return the jobs of some VCs."""
        rows = [self._of_jobs.rows[name] for name in names]
        jobs, ends = rows_of(self._seen, np.concatenate(rows)), np.cumsum([len(each) for each in rows]).tolist()
        ranges = zip(names, (0, *ends), ends, strict=False)
        return {name: range_of(jobs, slice(first, end)) for name, first, end in ranges}

    def _columns(self, name: str) -> _OwnColumns:
        if name not in self._columns_of:
            others = [each for each in self._holders.bindings if each not in self._columns_of]
            self._columns_of |= dict.fromkeys(others, _OwnColumns(self.hardware, self._holders, others))
        return self._columns_of[name]

    def of(self, name: str, quotas: tuple[Quota, ...]) -> Snapshot:
        """Return the snapshot of a VC. `quotas`: what the VCs before it leave of Slurm's limits."""
        jobs = self._jobs_of[name] if name in self._jobs_of else rows_of(self._seen, self._of_jobs.rows[name])
        requests = self._requests(name, jobs.request)
        return Snapshot(
            self._time,
            jobs if requests is jobs.request else replace(jobs, request=requests),
            self._nodes_of(name),
            self._allocations(name),
            self._quotas(name, quotas) if quotas else (),
            self._interference,
            self._trained,
        )

    def _requests(self, name: str, requests: tuple[Request, ...]) -> tuple[Request, ...]:
        if not self._names_hardware:
            return requests
        return self._nodes[name].requests(requests, self._holders.bindings[name], self.hardware)

    def _nodes_of(self, name: str) -> Nodes:
        """Return the virtual nodes of a VC in their order, without what the guaranteed gangs hold."""
        nodes, bindings, columns = self._nodes[name], self._holders.bindings[name], self._columns(name)
        now, own = bindings.ordered, columns.ranges[name][0]
        return Nodes(
            now.names, now.gpus, Resources(columns.free[own]), columns.usable[own], now.topology, now.types,
            nodes.features(bindings, self.hardware), nodes.last_resort(bindings, self.hardware),
            nodes.slowness(bindings, self.hardware),
        )  # fmt: skip

    def _allocations(self, name: str) -> Allocations:
        """Return what the guaranteed gangs of a VC hold."""
        bindings, columns = self._holders.bindings[name], self._columns(name)
        node, own = bindings.ordered.place[bindings.held.at], columns.ranges[name][1]
        return Allocations(self._of_jobs.position[columns.job[own]], node, Resources(columns.held[own]))

    def _quotas(self, name: str, quotas: tuple[Quota, ...]) -> tuple[Quota, ...]:
        position = positions(len(self._seen), self._of_jobs.rows[name])
        return tuple(quota_of_rows(quota, position) for quota in quotas)


def _names_hardware(request: Request) -> bool:
    """Return whether a request concerns nodes, their number, their GPU type or several of their features."""
    named = request.nodes or request.excluded or request.closed
    return bool(named or request.min_nodes > 1 or request.gpu_type or len(request.features) > 1)


class _OwnColumns:
    """The columns of the virtual nodes of some VCs, VC by VC.

    Args:
        hardware: The nodes.
        holders: The jobs that hold cells.
        names: The VCs.
    """

    def __init__(self, hardware: HardwareRows, holders: CellHolders, names: Sequence[str]) -> None:
        self._hardware, self._names = hardware, names
        self._bindings = [holders.bindings[name] for name in names]
        self.job = np.concatenate([_NO_JOBS, *(holders.jobs_of(name) for name in names)])

    @cached_property
    def usable(self) -> Bools:
        """Whether the hardware of each virtual node is healthy, VC by VC, in their order."""
        return np.concatenate([each.usable[each.ordered.order] for each in self._bindings])

    @cached_property
    def free(self) -> Floats:
        """GPUs, CPUs and MiB of each virtual node that the guaranteed gangs do not hold, VC by VC, in their order.

        A node that is bound has the CPUs and memory of its hardware, and no GPUs of unmanaged jobs. Any other one has no limits.
        """
        row = np.concatenate([each.row[each.ordered.order] for each in self._bindings])
        gpus = np.concatenate([each.ordered.gpus for each in self._bindings])
        used = np.concatenate([each.used[each.ordered.order] for each in self._bindings])
        found = np.where(row[:, None] >= 0, self._hardware.available[row], np.inf)
        managed = np.where(row >= 0, self._hardware.managed_gpus[row], np.inf)
        found[:, GPUS] = np.minimum(gpus, managed) - used
        return found

    @cached_property
    def held(self) -> Floats:
        """GPUs, CPUs and MiB that guaranteed gangs hold of each of their virtual nodes, VC by VC, shape (nodes of the gangs, 3)."""
        gpus = np.concatenate([each.held.gpus for each in self._bindings])
        row = np.concatenate([each.row[each.held.at] for each in self._bindings])
        found = np.empty((len(gpus), COUNTED))
        found[:, GPUS] = gpus
        found[:, GPUS + 1 :] = self._hardware.held(self.job, row, gpus)
        return found

    @cached_property
    def ranges(self) -> dict[str, tuple[slice, slice]]:
        """Where the virtual nodes of each VC are in these columns, and what gangs hold of them."""
        nodes = np.cumsum([0, *(len(each.row) for each in self._bindings)]).tolist()
        held = np.cumsum([0, *(len(each.held.at) for each in self._bindings)]).tolist()
        parts = zip(nodes, nodes[1:], held, held[1:], strict=False)
        return {
            name: (slice(first, end), slice(held_first, held_end))
            for name, (first, end, held_first, held_end) in zip(self._names, parts, strict=True)
        }
