"""Placement style even: the fewest nodes, and parts on them that are as equal as their free GPUs allow (Optimus, EuroSys '18,
theorem 1).

A GPU that works with all others of its job, as worker and server, exchanges with those on other nodes; the smallest part
exchanges most, so no other parts of the same nodes take less time. Pure.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Ints, Request
from tiresias.scheduler.place import consolidate
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement


def even(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Return a placement on the nodes with the most free GPUs, as many as consolidation takes; None: the job does not fit."""
    fewest = consolidate.uneven(request, gpus, candidates)
    if fewest is None:
        return None
    nodes = np.sort(np.argsort(-candidates.fit.astype(np.int64), kind="stable")[: len(fewest)])
    shares = equal_parts(candidates.fit[nodes].astype(np.int64), gpus)
    return tuple(zip(nodes.tolist(), shares.tolist(), strict=True))


def equal_parts(free: Ints, gpus: int) -> Ints:
    """Return parts of a number of GPUs, shape (nodes,), no more than free on each node, the smallest part as large as possible.

    Args:
        free: Free GPUs of each node; together enough.
        gpus: The GPUs to distribute.
    """
    levels = np.minimum(free, np.arange(int(free.max()) + 1)[:, None]).sum(axis=1)  # GPUs up to each level
    level = int(np.searchsorted(levels, gpus, side="right")) - 1
    shares = np.minimum(free, level)
    shares[np.flatnonzero(free > level)[: gpus - int(shares.sum())]] += 1
    return shares
