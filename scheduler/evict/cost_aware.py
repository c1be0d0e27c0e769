"""Which preemptions of the walk are worth their cost, for policies that weigh them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.evict.by_rank import BY_RANK
from tiresias.scheduler.evict.eviction import Walk
from tiresias.scheduler.model import Bools, Snapshot


class Starter(NamedTuple):
    """worth: GPUs that victims may lose for it; 0 where it has not waited long enough, inf where it starves."""

    gpus: int
    worth: float


class Victim(NamedTuple):
    """ahead: how many of the starters rank before it."""

    gpus: int
    ahead: int


class Weighed(NamedTuple):
    """starts: how many of the first starters start. spared: the places of those victims who keep their GPUs. free: what is left."""

    starts: int
    spared: list[int]
    free: int


def weigh(free: int, starters: Sequence[Starter], victims: Sequence[Victim]) -> Weighed:
    """Who of the walk's victims has to go: those for whose GPUs jobs that rank before them have waited long enough.

    A victim that stays takes its GPUs from the last starters. It does where those of them that rank before it are together worth
    fewer GPUs than it holds. Both in the order of the walk. free: GPUs that are unallocated when all starters start and all
    victims go; no victim holds more than that and what the starters take. O(GPUs of the victims) for each that stays.
    """
    starts, going, at = len(starters), list(range(len(victims))), 0
    while at < len(going):
        victim = victims[going[at]]
        cut, room, worth = _weighed(free, starters[:starts], victim)
        if worth >= victim.gpus:
            at += 1
        else:
            starts, free = cut, room - victim.gpus
            del going[at]
            at = 0  # those for whom earlier ones were to go may not start any more
    return Weighed(starts, [place for place in range(len(victims)) if place not in going], free)


def _weighed(free: int, starters: Sequence[Starter], victim: Victim) -> tuple[int, int, float]:
    """If the victim stays: how many starters are left, how many GPUs that leaves for it, and what the other starters are worth of
    those that rank before it."""
    cut, room, worth = len(starters), free, 0.0
    while room < victim.gpus:
        cut -= 1
        room += starters[cut].gpus
        worth += starters[cut].worth if cut < victim.ahead else 0.0
    return cut, room, worth


class CostAware:
    """A victim releases its GPUs where the jobs ranked before it have waited long enough for them (`weigh`)."""

    def released(self, snapshot: Snapshot, walk: Walk) -> Bools:
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
        return (COST_AWARE if walk.weighs else BY_RANK).released(snapshot, walk)


def weighs_cost(eviction: str, spares: bool) -> bool:
    """Return whether the built-in eviction of that name weighs the cost of preemptions.

    `spares`: as of the policy.
    """
    return eviction == "cost_aware" or (eviction == "by_policy" and spares)


COST_AWARE = CostAware()
BY_POLICY = ByPolicy()
