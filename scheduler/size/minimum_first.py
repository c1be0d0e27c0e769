"""The sizing `minimum_first`: each job its fewest GPUs in the order of the policy, then the GPUs that are left to elastic jobs.

A job of a fixed size gets the GPUs that it requests. Each step of the GPUs that are left goes to the elastic job with the
fewest, of equal ones to one that has it already: where the speed rises ever less with each GPU, as it does for training, that is
the largest gain (Optimus, EuroSys 2018, section 4.1, with equal speed functions).
"""

from __future__ import annotations

import heapq

import numpy as np

from tiresias.scheduler.model import Bools, Ints, Jobs, JobState, Snapshot
from tiresias.scheduler.size.elastic_jobs import can_change, comes_back, least_sizes, most_sizes


class MinimumFirst:
    """The fewest GPUs for each job, then steps for elastic jobs."""

    def sizes(self, snapshot: Snapshot, order: Ints) -> Ints:
        """Return the GPUs of each job. O(jobs + steps x log elastic jobs)."""
        jobs = snapshot.jobs
        elastic = can_change(jobs)
        if not elastic.any():
            return jobs.gpus
        sizes = np.where(elastic, least_sizes(jobs), jobs.gpus)
        granted, left = granted_minima(snapshot, order, sizes, elastic)
        give_steps(jobs, order[(granted & elastic)[order]], sizes, left)
        return sizes


MINIMUM_FIRST = MinimumFirst()


def granted_minima(snapshot: Snapshot, order: Ints, sizes: Ints, elastic: Bools) -> tuple[Bools, int]:
    """Return which jobs get their fewest GPUs, shape (jobs,), and how many GPUs are left then.

    Args:
        snapshot: Jobs, nodes and allocations.
        order: Rows of the jobs, the most urgent first.
        sizes: The fewest GPUs of each job, shape (jobs,).
        elastic: The jobs whose size may be chosen, shape (jobs,). Other jobs that do not wait keep their GPUs.
    """
    jobs, nodes = snapshot.jobs, snapshot.nodes
    waits = jobs.state == JobState.WAITING
    left = int(np.maximum(nodes.free["gpus"], 0.0).sum()) + int(jobs.gpus[~waits].sum())
    kept = ~waits & ~elastic
    left -= int(jobs.gpus[kept].sum())
    granted = kept.copy()
    competing = waits & (jobs.eligible | comes_back(snapshot))
    for row in order[(competing | (elastic & ~waits))[order]].tolist():
        if sizes[row] <= left:
            granted[row] = True
            left -= int(sizes[row])
    return granted, left


def give_steps(jobs: Jobs, rows: Ints, sizes: Ints, left: int) -> None:
    """Add steps to the sizes of elastic jobs while GPUs are left, each to the job with the fewest. rows: in the jobs' order.

    Of jobs with equal sizes one that holds more GPUs now is first: else the order of the policy, which changes while jobs run,
    would move GPUs between them.
    """
    assert jobs.gpu_step is not None
    most, step = most_sizes(jobs).tolist(), jobs.gpu_step.tolist()
    held = np.where(jobs.state == JobState.RUNNING, jobs.gpus, 0).tolist()
    size = sizes.tolist()
    growing = [(size[row], held[row] <= size[row], place, row) for place, row in enumerate(rows.tolist())]
    heapq.heapify(growing)
    while growing:
        _, _, place, row = heapq.heappop(growing)
        if step[row] <= left and size[row] + step[row] <= most[row]:
            size[row] += step[row]
            left -= step[row]
            heapq.heappush(growing, (size[row], held[row] <= size[row], place, row))
    sizes[:] = size
