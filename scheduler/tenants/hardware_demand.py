"""On which physical nodes a guaranteed job can start, once the opportunistic jobs that may be preempted have left them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Jobs, JobState, Request, Snapshot
from tiresias.scheduler.place.free_capacity import COUNTED, amounts

_ROUNDING = 1e-6


class HardwareDemand:
    """What the nodes of a snapshot can give to guaranteed jobs.

    Attributes:
        promised: What guaranteed jobs that do not run yet take of each node, shape (nodes, 3): GPUs, CPUs, MiB.
    """

    def __init__(self, snapshot: Snapshot, removable: Collection[str]) -> None:
        """`removable`: ids of the jobs that release their GPUs, or may be preempted for a guaranteed one."""
        self._snapshot = snapshot
        self._row = {name: row for row, name in enumerate(snapshot.nodes.name)}
        self._free = snapshot.nodes.free.amount[:, :COUNTED]
        self._held = _held_by(snapshot, removable)
        self.promised = np.zeros_like(self._free)
        self._suggested: dict[tuple[Request, int], frozenset[str] | None] = {}

    def suggested(self, request: Request, gpus: int) -> frozenset[str] | None:
        """Return the nodes that can give so many GPUs to such a job; None: all. O(nodes) for each new request."""
        key = (request, gpus)
        if key not in self._suggested:
            self._suggested[key] = self._nodes_for(request, gpus)
        return self._suggested[key]

    def available(self) -> Floats:
        """Return what is free on each node, or held by jobs that may be removed, shape (nodes, 3)."""
        return self._free + self._held

    def _nodes_for(self, request: Request, gpus: int) -> frozenset[str] | None:
        nodes = self._snapshot.nodes
        need = np.array([0.0, *amounts(request, gpus)[1:]])  # the GPUs of a node are in its cells
        enough = (self._free + self._held + _ROUNDING >= need).all(axis=1) & nodes.usable
        names = request.excluded | request.closed
        for row in np.flatnonzero(enough).tolist():
            enough[row] = nodes.name[row] not in names and request.features <= nodes.features[row]
        if request.nodes:
            enough &= np.isin(nodes.name, sorted(request.nodes))
        return None if enough.all() else frozenset(nodes.name[row] for row in np.flatnonzero(enough).tolist())

    def promise(self, request: Request, placement: Sequence[tuple[str, int]]) -> bool:
        """Promise what a placement takes. False, and nothing is promised: it takes more than what can be free on a node."""
        if not request.nodes <= {name for name, _ in placement}:
            return False
        rows = [self._row[name] for name, _ in placement]
        need = np.array([amounts(request, gpus) for _, gpus in placement])
        if (self.promised[rows] + need > self._free[rows] + self._held[rows] + _ROUNDING).any():
            return False
        self.promised[rows] += need
        return True

    def free_now(self, request: Request, placement: Sequence[tuple[str, int]]) -> bool:
        """Return whether the nodes of a promised placement have everything free that was promised there."""
        rows = [self._row[name] for name, _ in placement]
        return bool((self.promised[rows] <= self._free[rows] + _ROUNDING).all())


def _held_by(snapshot: Snapshot, jobs: Collection[str]) -> Floats:
    """Return what the jobs hold on each node, shape (nodes, 3)."""
    found = np.zeros((len(snapshot.nodes), COUNTED))
    held = snapshot.allocations
    of_jobs = np.array([each in jobs for each in snapshot.jobs.id], np.bool_)
    rows = np.flatnonzero(of_jobs[held.job]) if len(held.job) else np.empty(0, np.int64)
    np.add.at(found, held.node[rows], held.resources.amount[rows, :COUNTED])
    return found


def is_reclaimable(jobs: Jobs) -> Bools:
    """Return which running jobs may be preempted for the owners of the cells on which they run, shape (jobs,)."""
    may = jobs.movable if jobs.reclaimable is None else jobs.reclaimable
    found: Bools = (jobs.state == JobState.RUNNING) & may
    return found


def may_be_removed(snapshot: Snapshot) -> set[str]:
    """Return the ids of the jobs that release their GPUs, or run and may be preempted for the owners of their cells."""
    jobs = snapshot.jobs
    rows = (jobs.state == JobState.RELEASING) | is_reclaimable(jobs)
    return {jobs.id[row] for row in np.flatnonzero(rows).tolist()}
