"""Exchanges among few jobs that shorten them together, where whole workers and servers make the greedy inexact.

Two or three jobs pool what they have and what is free, and take the best of all combinations of their sizes. With many jobs a
worker more or less changes little and the combinations are many, so nothing is exchanged beyond MOST_COMBINATIONS.
"""

from __future__ import annotations

from functools import reduce
from itertools import combinations
from math import comb

import numpy as np

from tiresias.scheduler.model import Floats, Ints

MOST_COMBINATIONS = 5_000_000  # of sizes, of all pairs or of all groups of three: half a second
_ROUNDS = 5


def exchanged(seconds: Floats, demands: Floats, sizes: Ints, capacity: Floats) -> Ints:
    """Return sizes that no two or three jobs could improve, or the same sizes where there are too many combinations.

    Args:
        seconds: Weighted seconds by size, shape (jobs, servers + 1, workers + 1); inf: not allowed.
        demands: Of a server and a worker, shape (jobs, 2, resources).
        sizes: Shape (jobs, 2); (0, 0): the job gets nothing, and exchanges nothing.
        capacity: Shape (resources,).
    """
    holding, shape = np.flatnonzero(sizes[:, 1] > 0).tolist(), seconds.shape[1:]
    together = [
        count for count in (2, 3) if comb(len(holding), count) * (shape[0] * shape[1]) ** count <= MOST_COMBINATIONS
    ]
    if not together or len(holding) < 2:
        return sizes
    table = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).reshape(-1, 2)
    needs = np.einsum("zs,jsr->jzr", table.astype(np.float64), demands)
    place, flat = sizes[:, 0] * shape[1] + sizes[:, 1], seconds.reshape(len(seconds), -1)
    groups = [group for count in together for group in combinations(holding, count)]
    for _ in range(_ROUNDS):
        changed = [_exchange(flat, needs, place, capacity, list(group)) for group in groups]
        if not any(changed):
            break
    return np.asarray(table[place])


def _exchange(seconds: Floats, needs: Floats, place: Ints, capacity: Floats, group: list[int]) -> bool:
    """Give the jobs of a group their best sizes together; return whether that changed them.

    Args:
        seconds: By size, shape (jobs, sizes).
        needs: Resources by size, shape (jobs, sizes, resources).
        place: The size of each job, which this changes.
        capacity: Shape (resources,).
        group: The jobs.
    """
    used = needs[np.arange(len(place)), place]
    free = capacity - used.sum(axis=0) + used[group].sum(axis=0)
    need = reduce(lambda some, more: some[..., None, :] + more, [needs[job] for job in group])
    total = reduce(np.add.outer, [seconds[job] for job in group])
    total = np.where((need <= free + 1e-9).all(axis=-1), total, np.inf)
    best = np.unravel_index(int(total.argmin()), total.shape)
    if total[best] >= seconds[group, place[group]].sum() * (1.0 - 1e-9):
        return False
    place[group] = best
    return True
