"""Placement styles to compare with; none depends on the job's traffic. Pure and deterministic, also the random one."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Ints, Request
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.place.spread import in_order


def first_fit(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Take the nodes in the order of their rows."""
    return in_order(request, gpus, candidates.fit, np.flatnonzero(candidates.fit))


def load_balancing(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Take each GPU from the node that has the most free GPUs at that moment, which levels the nodes."""
    fit = candidates.fit
    if fit.sum() < gpus:
        return None
    over = np.bincount(fit)[:0:-1].cumsum().cumsum()  # GPUs above each level, from the highest down
    level = int(fit.max()) - 1 - int(np.searchsorted(over, gpus))
    shares = np.maximum(fit - level - 1, 0)
    shares[np.flatnonzero(fit > level)[: gpus - int(shares.sum())]] += 1
    return _checked(request, shares)


def random(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Take free GPUs at random, all with the same probability."""
    slots = np.repeat(np.arange(len(candidates.fit)), candidates.fit)
    if len(slots) < gpus:
        return None
    chosen = np.random.default_rng([gpus, *np.flatnonzero(candidates.fit)[:64].tolist(), len(slots)]).choice(
        slots, gpus, replace=False
    )
    return _checked(request, np.bincount(chosen, minlength=len(candidates.fit)))


def _checked(request: Request, shares: Ints) -> Placement | None:
    nodes = np.flatnonzero(shares)
    if not request.min_nodes <= len(nodes) <= (request.max_nodes or len(nodes)):
        return None
    return tuple((int(node), int(shares[node])) for node in nodes)
