"""Fragments first, the smallest before the others, so that whole nodes stay free for those who need them (section 3.3).

Pure: what each node can give in, seats out.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Ints, Request
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement, tightest


def equal(request: Request, count: int, offer: CandidateNodes) -> Ints:
    """`count` of the nodes that give gpus_per_node; there are enough."""
    return tightest(offer.rows, offer.fit, request.gpus_per_node)[:count]


def uneven(request: Request, gpus: int, offer: CandidateNodes) -> Placement | None:
    return in_order(request, gpus, offer.fit, tightest(offer.rows, offer.fit, 1))


def in_order(request: Request, gpus: int, fit: Ints, order: Ints) -> Placement | None:
    """As many nodes as it takes, the first ones in this order; where that would be more than max_nodes, without the first."""
    least, most = max(request.min_nodes, 1), min(len(order), request.max_nodes or gpus, gpus)
    total = np.concatenate(([0], np.cumsum(fit[order])))
    begins = np.arange(len(order) + 1 - least) if least <= most else np.empty(0, np.int64)
    enough = np.flatnonzero(total[np.minimum(begins + most, len(order))] - total[begins] >= gpus)
    if not len(enough):
        return None
    begin = int(enough[0])
    count = max(int(np.searchsorted(total, total[begin] + gpus)) - begin, least)
    return _shares(order[begin : begin + count], fit, gpus)


def _shares(nodes: Ints, fit: Ints, gpus: int) -> Placement:
    """Each node gives all it has, but leaves a GPU to each that comes after it."""
    parts = []
    for after in range(len(nodes) - 1, -1, -1):
        node = int(nodes[len(nodes) - 1 - after])
        share = min(int(fit[node]), gpus - after)
        parts.append((node, share))
        gpus -= share
    return tuple(sorted(parts))
