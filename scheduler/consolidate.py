"""The fewest nodes; among those the fewest leaf switches; among those the tightest, so that whole nodes stay whole (section 3.3).

Pure: what each node can give in, seats out. `groups`: the index of each node's leaf switch, then of the group above it, and so on.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Request
from tiresias.scheduler.space import Placement


def equal(request: Request, count: int, fit: Ints, groups: Sequence[Ints]) -> Ints:
    """`count` of the nodes that give gpus_per_node; there are enough. A node gives that or nothing, so that "the fewest" is
    settled; best fit goes on by what is left of it."""
    enough = np.flatnonzero(fit >= request.gpus_per_node)
    here = _together(np.ones(len(enough), np.int64), [group[enough] for group in groups], count, count)
    enough = enough if here is None else enough[here]
    return enough[np.argsort(fit[enough], kind="stable")[:count]]


def uneven(request: Request, gpus: int, fit: Ints, groups: Sequence[Ints]) -> Placement | None:
    some = np.flatnonzero(fit > 0)
    largest = some[np.argsort(-fit[some].astype(np.int16), kind="stable")]  # so short that numpy sorts in linear time
    total = np.cumsum(fit[largest])
    count = max(int(np.searchsorted(total, gpus)) + 1, request.min_nodes)
    if count > min(len(largest), gpus, request.max_nodes or gpus):
        return None
    here = _together(fit[largest], [group[largest] for group in groups], count, gpus)
    if here is not None:
        return _fill(largest[here], fit, count, gpus)
    few = _few_leaves(largest, fit, groups[0], count, gpus)
    return _fill(_by_leaf(few, fit, groups[0], count), fit, count, gpus)


def apart(request: Request, gpus: int, fit: Ints, groups: Sequence[Ints]) -> Placement | None:
    """On two nodes at least where that is allowed and can be had."""
    wider = replace(request, min_nodes=max(request.min_nodes, 2))
    return uneven(wider, gpus, fit, groups) or uneven(request, gpus, fit, groups)


def _together(fit: Ints, groups: Sequence[Ints], count: int, gpus: int) -> Bools | None:
    """The nodes of the smallest group, on the lowest level, in which `count` of them are enough; None: there is no such group.

    `fit`, `groups`: shape (candidates,), the roomiest first.
    """
    for group in groups:
        if (here := _one_group(fit, group, count, gpus)) is not None:
            return here
    return None


def _one_group(fit: Ints, group: Ints, count: int, gpus: int) -> Bools | None:
    enough = (_best(fit, group, count) >= gpus) & (np.bincount(group) >= count)
    if not enough.any():
        return None
    room = np.where(enough, np.bincount(group, weights=fit), np.inf)
    return np.asarray(group == room.argmin())


def _best(fit: Ints, group: Ints, count: int) -> Floats:
    """What the `count` roomiest nodes of each group give together; the roomiest nodes come first."""
    size = np.bincount(group)
    order = np.argsort(group.astype(np.int16), kind="stable")
    group_of = group[order]
    among = np.arange(len(order)) - (np.cumsum(size) - size)[group_of] < count
    return np.asarray(np.bincount(group_of, weights=np.where(among, fit[order], 0)), np.float64)


def _few_leaves(largest: Ints, fit: Ints, leaf: Ints, count: int, gpus: int) -> Ints:
    """The nodes of the fewest leaves, those with the best `count` nodes first, that are enough together."""
    under = leaf[largest]
    place = np.argsort(np.argsort(-_best(fit[largest], under, count), kind="stable"))[under]
    leaves = bisect.bisect_left(
        range(int(place.max())), True, key=lambda n: _enough(fit[largest[place <= n]], count, gpus)
    )
    return largest[place <= leaves]


def _enough(fit: Ints, count: int, gpus: int) -> bool:
    """fit: the roomiest first."""
    return len(fit) >= count and bool(fit[:count].sum() >= gpus)


def _by_leaf(largest: Ints, fit: Ints, leaf: Ints, count: int) -> Ints:
    """The roomiest first; among those that give the same, the ones of the leaf that has most of the room that is looked for."""
    wanted = fit[largest] >= fit[largest[count - 1]]
    room = np.bincount(leaf[largest], weights=np.where(wanted, fit[largest], 0))
    return largest[np.lexsort((leaf[largest], -room[leaf[largest]], -fit[largest]))]


def _fill(largest: Ints, fit: Ints, count: int, gpus: int) -> Placement:
    """`count` of the nodes, the roomiest first; the last one is the tightest that is enough. Every node gets a GPU."""
    parts: list[tuple[int, int]] = []
    for after in range(count - 1, 0, -1):
        node = int(largest[count - 1 - after])
        share = min(int(fit[node]), gpus - after)
        parts.append((node, share))
        gpus -= share
    rest = largest[count - 1 :]
    enough = rest[fit[rest] >= gpus]  # at least the first: the roomiest `count` nodes are enough together
    last = enough[np.argmin(fit[enough])]
    return tuple(sorted([*parts, (int(last), gpus)]))
