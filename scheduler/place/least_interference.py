"""Placement style least_interference: the fewest nodes and, among those, the least expected interference.

The cost of a node is the expected slowdown of the job beside the jobs that hold GPUs there, and the slowdowns of these jobs by it,
all summed; the cost of a placement is the sum over its nodes, as each task of the job suffers and causes it on its own node
(marl-placement, section VI, "least interference first", which has no limit to the fewest nodes). The choice is exact
(`least_cost.py`). Where no interference is known it is the placement of `consolidate`. Pure.
"""

from __future__ import annotations

from tiresias.scheduler.model import Request
from tiresias.scheduler.place import least_cost
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement


def least_interference(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Return a placement with the least expected interference on the fewest nodes; None: the job does not fit."""
    return least_cost.cheapest(request, gpus, candidates, candidates.context.interference.total)
