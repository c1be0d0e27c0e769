"""Which preemptions of the walk are worth their cost, for policies that weigh them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.evict.by_rank import BY_RANK
from tiresias.scheduler.evict.eviction import Walk
from tiresias.scheduler.model import Bools, Snapshot


class Starter(NamedTuple):
    """A waiting job that the walk selected.

    Attributes:
        gpus: GPUs that it gets.
        worth: GPUs that victims may lose for it; 0: it has not waited long enough, inf: it starves.
    """

    gpus: int
    worth: float


class Victim(NamedTuple):
    """A running job that the walk did not select.

    Attributes:
        gpus: GPUs that it holds.
        ahead: The number of starters that rank before it.
    """

    gpus: int
    ahead: int


class Weighed(NamedTuple):
    """The starts and preemptions that are worth their cost.

    Attributes:
        starts: The number of starters, from the first one, that start.
        spared: Indexes of the victims that keep their GPUs.
        free: GPUs that remain unallocated.
    """

    starts: int
    spared: list[int]
    free: int


def weigh(free: int, starters: Sequence[Starter], victims: Sequence[Victim]) -> Weighed:
    """Return which victims keep their GPUs: those whose GPUs higher-ranked jobs have not waited long enough for.

    A spared victim takes its GPUs from the last starters. It is spared where those of them that rank before it are together worth
    fewer GPUs than it holds. O(GPUs of the victims) for each spared victim.

    Args:
        free: GPUs that are unallocated once all starters have started and all victims have released their GPUs. No victim holds
            more than that and what the starters take.
        starters: The starters in the order of the walk.
        victims: The victims in the order of the walk.
    """
    starts, going, at = len(starters), list(range(len(victims))), 0
    while at < len(going):
        victim = victims[going[at]]
        cut, available, worth = _weighed(free, starters[:starts], victim)
        if worth >= victim.gpus:
            at += 1
        else:
            starts, free = cut, available - victim.gpus
            del going[at]
            at = 0  # the starters that earlier victims are preempted for may not start any more
    return Weighed(starts, [place for place in range(len(victims)) if place not in going], free)


def _weighed(free: int, starters: Sequence[Starter], victim: Victim) -> tuple[int, int, float]:
    """Return what sparing the victim means: how many starters still start, the GPUs available to it, and the worth of the displaced
    starters that rank before it."""
    cut, available, worth = len(starters), free, 0.0
    while available < victim.gpus:
        cut -= 1
        available += starters[cut].gpus
        worth += starters[cut].worth if cut < victim.ahead else 0.0
    return cut, available, worth


class CostAware:
    """A victim releases its GPUs where the jobs ranked before it have waited long enough for them (`weigh`)."""

    def released(self, snapshot: Snapshot, walk: Walk) -> Bools:
        """Return whether each victim of the walk is worth its preemption."""
        return worthwhile(walk)


def worthwhile(walk: Walk) -> Bools:
    """Return whether the preemption of each job of the walk is worth its cost, shape (competing jobs,)."""
    starters, victims = np.flatnonzero(walk.starters), np.flatnonzero(walk.victims)
    weighed = weigh(
        walk.free,
        list(map(Starter, walk.gpus[starters].tolist(), walk.worth[starters].tolist())),
        list(map(Victim, walk.gpus[victims].tolist(), np.searchsorted(starters, victims).tolist())),
    )
    released = np.ones(len(walk.rows), np.bool_)
    released[victims[weighed.spared]] = False
    return released


class ByPolicy:
    """As `cost_aware` for policies that weigh the cost of preemptions, as `by_rank` for all others."""

    def released(self, snapshot: Snapshot, walk: Walk) -> Bools:
        """Return the victims of `cost_aware` or of `by_rank`, by the policy."""
        return (COST_AWARE if walk.weighs else BY_RANK).released(snapshot, walk)


def weighs_cost(eviction: str, spares: bool) -> bool:
    """Return whether the built-in eviction of that name weighs the cost of preemptions.

    `spares`: as of the policy.
    """
    return eviction == "cost_aware" or (eviction == "by_policy" and spares)


COST_AWARE = CostAware()
BY_POLICY = ByPolicy()
