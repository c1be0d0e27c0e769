"""Why a job waits, runs or is preempted, in terms of the cells of virtual clusters (VCs): reasons that viewers request.

A decision itself has no need of these texts, so they are made from it and from the report of the cells, job by job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

import numpy as np

from tiresias.scheduler.admit.quotas import obstacle
from tiresias.scheduler.model import Effect, JobState, Plan, Snapshot, Start
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.scheduler.tenants.cell_report import CellLevelReport, CellReport, VirtualClusterReport

# reasons that the rest of the cluster may have given, where the cells of the VC have a better one
_OF_CELLS = (ReasonCode.NO_NODES, ReasonCode.PACKED, ReasonCode.STRICT_FIFO)


class CellReasons:
    """The reasons of one decision.

    Args:
        plan: The plan of all jobs.
        snapshot: All jobs and nodes.
        report: The cells as the snapshot shows them.
        preempting: Ids of the jobs of which a preemption has begun.
    """

    def __init__(self, plan: Plan, snapshot: Snapshot, report: CellReport, preempting: Collection[str]) -> None:
        self._plan, self._snapshot = plan, snapshot
        self._clusters = {each.name: each for each in report.clusters}
        self._of = snapshot.jobs.virtual_cluster or ("",) * len(snapshot.jobs)
        self._beneficiary = {one.job: one.beneficiary for one in plan.preemptions}
        self._rebound = {one.job: next(iter(one.owned_cells), "") for one in plan.rebindings}
        self._preempting = {*preempting, *self._beneficiary}

    def of(self, row: int) -> Reason | None:
        """Return the reason of a job; None: the decision's own one says as much."""
        effect, job = Effect(self._plan.effect[row]), self._snapshot.jobs.id[row]
        if effect == Effect.KEEP and self._snapshot.jobs.state[row] == JobState.RUNNING:
            level = self._rebound.get(job, self._cell_of.get(job, ""))
            return Reason(ReasonCode.IN_CELLS, self._of[row], level=level) if level else None
        if effect == Effect.PREEMPT:
            return self._of_preempted(job)
        return self._of_waiting(row, job) if effect == Effect.WAIT else None

    def _of_preempted(self, job: str) -> Reason | None:
        other = self._beneficiary.get(job, "")
        if job in self._cell_of or other not in self._starts_in_cells:
            return None
        return Reason(ReasonCode.PREEMPTED_FOR_CELLS, self._of[self._row[other]], jobs=(other,))

    def _of_waiting(self, row: int, job: str) -> Reason | None:
        cluster = self._clusters.get(self._of[row])
        if cluster is None or not self._snapshot.jobs.eligible[row] or obstacle(self._snapshot.jobs, row):
            return None
        if start := self._starts_in_cells.get(job):
            return self._being_freed(cluster, start)
        why = self._plan.why.get(row)
        if why is not None and why.code not in _OF_CELLS:
            return None
        if job in self._reserved:
            return None
        found = self._in_use(cluster, int(self._snapshot.jobs.gpus[row]))
        return None if why is not None and found.amount - found.in_use >= found.needed else found

    def _being_freed(self, cluster: VirtualClusterReport, start: Start) -> Reason | None:
        users = {node: self._preempted_on(node) for node, _ in start.nodes}
        jobs = tuple(dict.fromkeys(job for each in users.values() for job in each))
        level = _smallest(cluster.levels, max(gpus for _, gpus in start.nodes))
        if not jobs or level is None or not level.free:
            return None
        nodes = tuple(share for share in start.nodes if users[share[0]])
        return Reason(
            ReasonCode.CELLS_BEING_FREED, cluster.name, level.free, nodes=nodes, level=level.cell_type, jobs=jobs
        )

    def _in_use(self, cluster: VirtualClusterReport, gpus: int) -> Reason:
        if gpus > cluster.gpus:
            return Reason(ReasonCode.BEYOND_CELLS, cluster.name, cluster.gpus, needed=gpus)
        level = _smallest(cluster.levels, gpus) or cluster.levels[0]
        return Reason(
            ReasonCode.CELLS_IN_USE,
            cluster.name,
            level.cells,
            level=level.cell_type,
            needed=-(-gpus // level.gpus),
            in_use=level.cells - level.free,
            jobs=self._holders.get(cluster.name, ()),
        )

    @cached_property
    def _row(self) -> Mapping[str, int]:
        return {job: row for row, job in enumerate(self._snapshot.jobs.id)}

    @cached_property
    def _starts_in_cells(self) -> Mapping[str, Start]:
        return {start.job: start for start in (*self._plan.starts, *self._plan.reserved) if start.owned_cells}

    @cached_property
    def _reserved(self) -> Collection[str]:
        return {start.job for start in self._plan.reserved}

    @cached_property
    def _cell_of(self) -> Mapping[str, str]:
        """The type of the cell of each job that holds one."""
        held, jobs = self._snapshot.allocations, self._snapshot.jobs
        cells = held.owned_cell or ("",) * len(held.job)
        return {jobs.id[job]: cell for job, cell in zip(held.job.tolist(), cells, strict=True) if cell}

    @cached_property
    def _holders(self) -> Mapping[str, tuple[str, ...]]:
        """The jobs that hold cells of each VC."""
        found: dict[str, list[str]] = {}
        for job in self._cell_of:
            found.setdefault(self._of[self._row[job]], []).append(job)
        return {name: tuple(jobs) for name, jobs in found.items()}

    def _preempted_on(self, node: str) -> list[str]:
        """Return the jobs without cells on a node that are being preempted."""
        held, jobs = self._snapshot.allocations, self._snapshot.jobs
        rows = held.job[held.node == self._node[node]]
        names = [jobs.id[row] for row in np.unique(rows).tolist()]
        return [name for name in names if name in self._preempting and name not in self._cell_of]

    @cached_property
    def _node(self) -> Mapping[str, int]:
        return {name: row for row, name in enumerate(self._snapshot.nodes.name)}


def _smallest(levels: tuple[CellLevelReport, ...], gpus: int) -> CellLevelReport | None:
    """Return the smallest cells that have so many GPUs; None: no cell of the VC has."""
    return min((level for level in levels if level.gpus >= gpus), key=lambda level: level.gpus, default=None)
