"""Placements with the same number of GPUs on each node, as a job requests it by gpus_per_node. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tiresias.scheduler.model import Ints, Request
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement

Choose = Callable[
    [Request, int, CandidateNodes], Ints
]  # (request, nodes, candidates) -> rows of so many of the nodes that suffice


def on_equal_shares(request: Request, gpus: int, candidates: CandidateNodes, choose: Choose) -> Placement | None:
    """Return a placement with gpus_per_node GPUs on each node; None: the job does not fit."""
    each = request.gpus_per_node
    count, rest = divmod(gpus, each)
    allowed = request.min_nodes <= count <= (request.max_nodes or count)
    if rest or not allowed or np.count_nonzero(candidates.fit >= each) < count:
        return None
    return tuple((node, each) for node in np.sort(choose(request, count, candidates)).tolist())
