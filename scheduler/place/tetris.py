"""Placement style tetris: the fewest nodes and, among those, the ones whose free resources are most like the job's demand.

Grandl et al. (SIGCOMM 2014, section 3.2) give a machine to the task with the largest dot product of its demand and of what the
machine has free, both as parts of the capacity. Here a job is given, and machines compete: so the product is divided by the length
of the vector of free resources, which is the same for all tasks of a machine. Otherwise the emptiest node always won, which is load
balancing. A job that needs many CPUs gets nodes with many free CPUs; one that needs few fills nodes that have few left. Ties are
those of `consolidate` (`least_cost.py`), so whole nodes stay whole. Pure.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Floats, Request
from tiresias.scheduler.place import least_cost
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement


def tetris(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Return a placement with the highest alignment on the fewest nodes; None: the job does not fit."""
    context = candidates.context
    demand = np.array(context.kind.amounts(gpus))
    return least_cost.cheapest(request, gpus, candidates, 1.0 - alignment(demand, context.free, context.capacity))


def alignment(demand: Floats, free: Floats, capacity: Floats) -> Floats:
    """Return the cosine of the angle between the demand and what each node has free, 0 to 1, shape (nodes,).

    Args:
        demand: What the job takes, shape (resources,).
        free: Shape (nodes, resources).
        capacity: By which both are divided, shape (resources,); a resource without a finite one does not count.
    """
    counts = np.isfinite(capacity) & (capacity > 0.0)
    required = demand[counts] / capacity[counts]
    left = np.clip(free[:, counts] / capacity[counts], 0.0, 1.0)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(required)
    return np.asarray(np.divide(left @ required, lengths, out=np.zeros(len(free)), where=lengths > 0.0).clip(0.0, 1.0))
