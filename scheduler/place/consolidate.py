"""The fewest nodes; among those the fewest leaf switches; among those the tightest, so that whole nodes stay whole (section 3.3).

Pure: what each node can give in, seats out. Groups of nodes are compared by their census, so that only nodes of the chosen ones
are looked at one by one. O(groups + nodes of those).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Bools, Ints, Request
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement, tightest


def equal(request: Request, count: int, offer: CandidateNodes) -> Ints:
    """`count` of the nodes that give gpus_per_node; there are enough. A node gives that or nothing, so that "the fewest" is
    settled; best fit goes on by what is left of it."""
    for level in offer.levels():
        size = level.at_least[request.gpus_per_node - 1]
        if (group := _smallest(size, size >= count)) is not None:
            return tightest(level.members(group), offer.fit, request.gpus_per_node)[:count]
    return tightest(offer.rows, offer.fit, request.gpus_per_node)[:count]


def uneven(request: Request, gpus: int, offer: CandidateNodes) -> Placement | None:
    leaves = next(offer.levels())
    count = max(_fewest(leaves.in_all, gpus), request.min_nodes)
    if count > min(leaves.in_all[0], gpus, request.max_nodes or gpus):
        return None
    for level in offer.levels():
        if (group := _smallest(level.room, _enough(level.at_least, count, gpus))) is not None:
            return _fill(_roomiest(level.members(group), offer.fit), offer.fit, count, gpus)
    few = np.flatnonzero(_few_leaves(leaves.at_least, count, gpus)[leaves.of])
    return _fill(_by_leaf(_roomiest(few, offer.fit), offer.fit, leaves.of, count), offer.fit, count, gpus)


def apart(request: Request, gpus: int, offer: CandidateNodes) -> Placement | None:
    """On two nodes at least where that is allowed and can be had."""
    wider = replace(request, min_nodes=max(request.min_nodes, 2))
    return uneven(wider, gpus, offer) or uneven(request, gpus, offer)


def _fewest(at_least: list[int], gpus: int) -> int:
    """How many nodes, the roomiest first, are enough; one more than there are where all are not. at_least: how many give at
    least 1, 2, 3 ... GPUs."""
    count = 0
    for room in range(len(at_least), 0, -1):
        of_this_room = at_least[room - 1] - count
        needed = -(-gpus // room)
        if needed <= of_this_room:
            return count + needed
        count += of_this_room
        gpus -= of_this_room * room
    return count + 1


def _best(at_least: Ints, count: int) -> Ints:
    """What the `count` roomiest nodes of each group give together; shape (groups,). at_least: as in a census."""
    return np.asarray(np.minimum(at_least, count).sum(axis=0), np.int64)


def _enough(at_least: Ints, count: int, gpus: int) -> Bools:
    """Which groups have `count` nodes that are enough together; shape (groups,)."""
    return np.asarray((_best(at_least, count) >= gpus) & (at_least[0] >= count))


def _smallest(size: Ints, among: Bools) -> int | None:
    """The first of those with the least size."""
    found = int(np.where(among, size, np.iinfo(np.int64).max).argmin())
    return found if among[found] else None


def _roomiest(rows: Ints, fit: Ints) -> Ints:
    """Those that give something, the roomiest first, ties by row."""
    rows = rows[fit[rows] > 0]
    return rows[np.argsort(-fit[rows].astype(np.int16), kind="stable")]


def _few_leaves(at_least: Ints, count: int, gpus: int) -> Bools:
    """The fewest leaves, those with the best `count` nodes first, that are enough together; shape (leaves,)."""
    order = np.argsort(-_best(at_least, count), kind="stable")
    so_far = at_least[:, order].cumsum(axis=1)
    few = np.zeros(len(order), bool)
    few[order[: int(_enough(so_far, count, gpus).argmax()) + 1]] = True
    return few


def _by_leaf(largest: Ints, fit: Ints, leaf: Ints, count: int) -> Ints:
    """The roomiest first; among those that give the same, the ones of the leaf that has most of the room that is looked for."""
    wanted = fit[largest] >= fit[largest[count - 1]]
    room = np.bincount(leaf[largest], weights=np.where(wanted, fit[largest], 0))
    return largest[np.lexsort((leaf[largest], -room[leaf[largest]], -fit[largest]))]


def _fill(largest: Ints, fit: Ints, count: int, gpus: int) -> Placement:
    """`count` of the nodes, the roomiest first; the last one is the tightest that is enough. Every node gets a GPU."""
    parts: list[tuple[int, int]] = []
    first = largest[: count - 1]
    for after, node, room in zip(range(count - 1, 0, -1), first.tolist(), fit[first].tolist(), strict=True):
        parts.append((node, min(room, gpus - after)))
        gpus -= parts[-1][1]
    rest = largest[count - 1 :]
    enough = rest[fit[rest] >= gpus]  # at least the first: the roomiest `count` nodes are enough together
    last = enough[np.argmin(fit[enough])]
    return tuple(sorted([*parts, (int(last), gpus)]))
