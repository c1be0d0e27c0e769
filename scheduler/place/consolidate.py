"""The fewest nodes; among those the fewest leaf switches; among those the tightest, so that whole nodes stay whole (section 3.3).

Pure. Groups of nodes are compared by counts (`GroupCounts`), so that only the nodes of the chosen groups are examined one by one:
O(groups + nodes of the chosen groups).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Bools, Ints, Request
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement, tightest


def equal(request: Request, count: int, candidates: CandidateNodes) -> Ints:
    """Return the rows of `count` nodes that have gpus_per_node GPUs free; there are enough of them. The number of nodes is fixed,
    so the choice is by best fit."""
    for level in candidates.levels():
        size = level.at_least[request.gpus_per_node - 1]
        if (group := _smallest(size, size >= count)) is not None:
            return tightest(level.members(group), candidates.fit, request.gpus_per_node)[:count]
    return tightest(candidates.rows, candidates.fit, request.gpus_per_node)[:count]


def uneven(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Return a placement with any number of GPUs on each node; None: the job does not fit."""
    if gpus > candidates.fit.sum():
        return None
    leaves = next(candidates.levels())
    count = max(_fewest(leaves.in_all, gpus), request.min_nodes)
    if count > min(leaves.in_all[0], gpus, request.max_nodes or gpus):
        return None
    for level in candidates.levels():
        if (group := _smallest(level.free, _enough(level.at_least, count, gpus))) is not None:
            return fill(_most_free_first(level.members(group), candidates.fit), candidates.fit, count, gpus)
    few = np.flatnonzero(_few_leaves(leaves.at_least, count, gpus)[leaves.of])
    return fill(
        _by_leaf(_most_free_first(few, candidates.fit), candidates.fit, leaves.of, count), candidates.fit, count, gpus
    )


def apart(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Return a placement on two nodes at least, or on one where two are not allowed or not free."""
    wider = replace(request, min_nodes=max(request.min_nodes, 2))
    return uneven(wider, gpus, candidates) or uneven(request, gpus, candidates)


def _fewest(at_least: list[int], gpus: int) -> int:
    """Return how many nodes, in descending order of free GPUs, suffice; one more than exist where all do not.

    at_least: how many nodes have at least 1, 2, 3 ... GPUs free.
    """
    count = 0
    for free in range(len(at_least), 0, -1):
        of_this_size = at_least[free - 1] - count
        needed = -(-gpus // free)
        if needed <= of_this_size:
            return count + needed
        count += of_this_size
        gpus -= of_this_size * free
    return count + 1


def _best(at_least: Ints, count: int) -> Ints:
    """Return the free GPUs of the `count` nodes of each group with the most, shape (groups,). at_least: as in `GroupCounts`."""
    return np.asarray(np.minimum(at_least, count).sum(axis=0), np.int64)


def _enough(at_least: Ints, count: int, gpus: int) -> Bools:
    """Return which groups have `count` nodes that suffice together; shape (groups,)."""
    return np.asarray((_best(at_least, count) >= gpus) & (at_least[0] >= count))


def _smallest(size: Ints, among: Bools) -> int | None:
    """Return the first group of the smallest size."""
    found = int(np.where(among, size, np.iinfo(np.int64).max).argmin())
    return found if among[found] else None


def _most_free_first(rows: Ints, fit: Ints) -> Ints:
    """Return the nodes with free GPUs, sorted in descending order of these, ties by row."""
    rows = rows[fit[rows] > 0]
    return rows[np.argsort(-fit[rows].astype(np.int16), kind="stable")]


def _few_leaves(at_least: Ints, count: int, gpus: int) -> Bools:
    """Return the fewest leaf switches that suffice together, those with the most free GPUs on `count` nodes first; shape
    (leaves,)."""
    order = np.argsort(-_best(at_least, count), kind="stable")
    so_far = at_least[:, order].cumsum(axis=1)
    few = np.zeros(len(order), bool)
    few[order[: int(_enough(so_far, count, gpus).argmax()) + 1]] = True
    return few


def _by_leaf(largest: Ints, fit: Ints, leaf: Ints, count: int) -> Ints:
    """Sort the nodes in descending order of free GPUs; equal ones by the free GPUs of their leaf on nodes that may be used."""
    usable = fit[largest] >= fit[largest[count - 1]]
    on_leaf = np.bincount(leaf[largest], weights=np.where(usable, fit[largest], 0))
    return largest[np.lexsort((leaf[largest], -on_leaf[leaf[largest]], -fit[largest]))]


def fill(largest: Ints, fit: Ints, count: int, gpus: int) -> Placement:
    """Return a placement on `count` of these nodes, in descending order of free GPUs; the last node is the tightest one that
    suffices. Each node gets a GPU."""
    parts: list[tuple[int, int]] = []
    first = largest[: count - 1]
    for after, node, free in zip(range(count - 1, 0, -1), first.tolist(), fit[first].tolist(), strict=True):
        parts.append((node, min(free, gpus - after)))
        gpus -= parts[-1][1]
    rest = largest[count - 1 :]
    enough = rest[fit[rest] >= gpus]  # at least the first: the `count` nodes with the most free GPUs suffice together
    last = enough[np.argmin(fit[enough])]
    return tuple(sorted([*parts, (int(last), gpus)]))
