"""Snapshots of a simulated cluster, as `scheduler.decide` and the policies see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiresias.scheduler.model import ANYWHERE, Allocations, Jobs, JobState, Nodes, Snapshot
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import Topology
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.simulated_job import SimulatedJob


def job_rows(
    jobs: Sequence[SimulatedJob], columns: JobColumns, now: float, clusters: Sequence[str] = (), **more: Any
) -> Jobs:
    """Return the jobs at `now`. A trace has neither priority classes nor steps: these columns have their neutral values.

    Each simulated job saves, so all may be preempted for the owners of the cells on which they run, whatever protects them from
    preemption by a policy.

    Args:
        jobs: The jobs.
        columns: The same jobs in columns, at `now`.
        now: Simulated time, seconds.
        clusters: The virtual cluster of each job; (): none.
        more: Further columns of `Jobs`.
    """
    count = len(jobs)
    return Jobs(
        id=tuple(str(job.row) for job in jobs), gpus=columns.gpus, submit=columns.submit, state=columns.state,
        attained=columns.attained, ran=columns.ran, waited=columns.waited, first_start=columns.first_start,
        last_start=columns.last_start, preempted=columns.preempted, remaining=columns.remaining,
        progress_from=columns.idle_until, movable=np.array([now >= job.movable_from for job in jobs], bool),
        eligible=np.ones(count, bool), request=(ANYWHERE,) * count, virtual_cluster=tuple(clusters) or ("",) * count,
        priority_class=np.zeros(count, np.int64), min_gpus=columns.gpus, max_gpus=columns.gpus,
        progress=np.full(count, np.nan), claimed_remaining=columns.claimed_remaining,
        claim_trust=columns.claim_trust, owner_excess=columns.owner_excess, reclaimable=np.ones(count, bool), **more,
    )  # fmt: skip


def pool_snapshot(jobs: Sequence[SimulatedJob], now: float, gpus: int, free: int) -> Snapshot:
    """Return a snapshot of a pool of GPUs, shown as one node.

    Args:
        jobs: The jobs that wait or run.
        now: Simulated time, seconds.
        gpus: GPUs of the pool.
        free: Free GPUs of the pool.
    """
    columns = JobColumns(jobs)
    columns.now = now
    node = Nodes(
        ("pool",),
        np.array([gpus]),
        Resources.of([free], [np.inf], [np.inf]),
        np.ones(1, bool),
        Topology.of_groups([gpus]),
        ("",),
        (frozenset(),),
    )
    holders = np.flatnonzero(columns.state != JobState.WAITING)
    none = np.zeros(len(holders))
    held = Allocations(holders, np.zeros(len(holders), np.int64), Resources.of(columns.gpus[holders], none, none))
    return Snapshot(now, job_rows(jobs, columns, now), node, held)
