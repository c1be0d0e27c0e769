"""Placement style spread: partly used nodes first, in ascending order of their free GPUs, so that whole nodes stay free for jobs
that need them (section 3.3). Pure.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Ints, Request
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement, tightest


def equal(request: Request, count: int, candidates: CandidateNodes) -> Ints:
    """Return the rows of `count` nodes that have gpus_per_node GPUs free; there are enough of them."""
    return tightest(candidates.rows, candidates.fit, request.gpus_per_node)[:count]


def uneven(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Return a placement with any number of GPUs on each node; None: the job does not fit."""
    return in_order(request, gpus, candidates.fit, tightest(candidates.rows, candidates.fit, 1))


def in_order(request: Request, gpus: int, fit: Ints, order: Ints) -> Placement | None:
    """Return a placement on the first nodes of this order that suffice; nodes at its beginning are left out where the job would
    get more than max_nodes.

    Args:
        request: Limits on the number of nodes.
        gpus: GPUs of the job.
        fit: GPUs that each node has free for the job, shape (nodes,).
        order: Rows of the nodes.
    """
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
