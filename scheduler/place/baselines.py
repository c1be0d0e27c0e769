"""Placements to compare with, none of which looks at what a job sends. Pure, and deterministic: the random one too."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Ints, Request
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.place.spread import in_order


def first_fit(request: Request, gpus: int, offer: CandidateNodes) -> Placement | None:
    """The nodes as they are listed."""
    return in_order(request, gpus, offer.fit, np.flatnonzero(offer.fit))


def load_balancing(request: Request, gpus: int, offer: CandidateNodes) -> Placement | None:
    """Each GPU on the node that has most of them free then, which is to cut the nodes down to one level."""
    room = offer.fit
    if room.sum() < gpus:
        return None
    over = np.bincount(room)[:0:-1].cumsum().cumsum()  # GPUs above each level, from the highest down
    level = int(room.max()) - 1 - int(np.searchsorted(over, gpus))
    shares = np.maximum(room - level - 1, 0)
    shares[np.flatnonzero(room > level)[: gpus - int(shares.sum())]] += 1
    return _checked(request, shares)


def random(request: Request, gpus: int, offer: CandidateNodes) -> Placement | None:
    """Any of the free GPUs, each as likely as another."""
    slots = np.repeat(np.arange(len(offer.fit)), offer.fit)
    if len(slots) < gpus:
        return None
    chosen = np.random.default_rng([gpus, *np.flatnonzero(offer.fit)[:64].tolist(), len(slots)]).choice(
        slots, gpus, replace=False
    )
    return _checked(request, np.bincount(chosen, minlength=len(offer.fit)))


def _checked(request: Request, shares: Ints) -> Placement | None:
    nodes = np.flatnonzero(shares)
    if not request.min_nodes <= len(nodes) <= (request.max_nodes or len(nodes)):
        return None
    return tuple((int(node), int(shares[node])) for node in nodes)
