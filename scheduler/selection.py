"""Selects the jobs that hold GPUs next: the walk of pseudocode 2, and the victims that its eviction stage takes back."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.admit.quotas import QuotaUse
from tiresias.scheduler.evict.eviction import EVICTIONS, Walk
from tiresias.scheduler.model import Bools, Snapshot


def evicted(snapshot: Snapshot, eviction: str, walk: Walk, admission: QuotaUse) -> Bools:
    """Return which jobs of the walk hold GPUs next, shape (competing jobs,).

    Args:
        snapshot: Jobs, nodes and allocations.
        eviction: The name in `policy.eviction`.
        walk: The result of the walk.
        admission: The quotas of the waiting jobs. Those of selected jobs are taken.

    Raises:
        PluginError: An eviction of a package fails.
    """
    return settled(walk, EVICTIONS[eviction].released(snapshot, walk), admission)


def settled(walk: Walk, released: Bools, admission: QuotaUse) -> Bools:
    """Return the selection once victims that are not released keep their GPUs.

    The last starters wait instead; what that leaves free goes to waiting jobs in order. O(jobs).
    """
    stays = walk.victims & np.logical_not(released)
    if not stays.any():
        return walk.selected
    starters = np.flatnonzero(walk.starters)[::-1]
    missing = int(walk.gpus[stays].sum()) - walk.free
    waits = starters[: np.searchsorted(np.cumsum(walk.gpus[starters]), missing) + 1] if missing > 0 else starters[:0]
    kept = walk.selected | stays
    kept[waits] = False
    for row in walk.rows[waits].tolist():
        admission.give_back(row)
    left = np.flatnonzero(~kept & ~walk.runs)
    free = walk.capacity - int(walk.gpus[kept].sum())
    taken = admission.walk(walk.rows[left], walk.gpus[left], np.ones(len(left), np.bool_), free, False)
    kept[left[taken]] = True
    return kept
