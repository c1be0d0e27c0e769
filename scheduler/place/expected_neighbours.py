"""Beside which jobs a job runs, and what is expected of that. Pure; computed on request only."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.interference_table import UNKNOWN_KIND
from tiresias.scheduler.model import Snapshot
from tiresias.scheduler.place.placement_context import KEEPS


class ExpectedNeighbour(NamedTuple):
    """A job that holds GPUs of a node of another job.

    Attributes:
        job: Its id.
        own: Slowdown of the other job by it; 2% is 0.02.
        others: Its slowdown by the other job.
    """

    job: str
    own: float
    others: float


def is_known(snapshot: Snapshot, row: int) -> bool:
    """Return whether anything is expected of a job beside others."""
    kinds = snapshot.jobs.interference_kind
    return snapshot.interference is not None and kinds is not None and int(kinds[row]) != UNKNOWN_KIND


def expected_neighbours(snapshot: Snapshot, row: int, nodes: Collection[int]) -> list[ExpectedNeighbour]:
    """Return the jobs of known kinds on these nodes, those beside which the job is slowest first. O(allocations).

    Args:
        snapshot: The jobs and what they hold.
        row: The job.
        nodes: Rows of the nodes on which it runs or starts.
    """
    table, kinds, jobs = snapshot.interference, snapshot.jobs.interference_kind, snapshot.jobs
    if table is None or kinds is None or not is_known(snapshot, row):
        return []
    held, own = snapshot.allocations, int(kinds[row])
    there = np.isin(held.node, list(nodes)) & (held.resources["gpus"] > 0.0) & np.isin(jobs.state[held.job], KEEPS)
    others = [other for other in np.unique(held.job[there]).tolist() if other != row and kinds[other] != UNKNOWN_KIND]
    excess = table.excess
    found = [
        ExpectedNeighbour(jobs.id[other], float(excess[own, kinds[other]]), float(excess[kinds[other], own]))
        for other in others
    ]
    return sorted(found, key=lambda one: (-one.own, -one.others, one.job))
