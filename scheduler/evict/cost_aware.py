"""Which preemptions of the walk are worth their cost, for policies that weigh them.

Victims and the starts that would get their GPUs are compared as sets, by what the policy expects of them: a victim is preempted
where the starts that displace it and rank before it are together worth as much as the preemption costs. Under `adaptive` both are
seconds of completion time, summed over jobs.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.evict.by_rank import BY_RANK
from tiresias.scheduler.evict.eviction import Walk
from tiresias.scheduler.model import Bools, Snapshot


class Starter(NamedTuple):
    """A waiting job that the walk selected.

    Attributes:
        gpus: GPUs that it gets.
        worth: What its start is worth (`Policy.worth`); inf: it starves.
    """

    gpus: int
    worth: float


class Victim(NamedTuple):
    """A running job that the walk did not select.

    Attributes:
        gpus: GPUs that it holds.
        ahead: The number of starters that rank before it.
        loss: What its preemption costs, in the unit of `Starter.worth` (`Policy.loss`).
    """

    gpus: int
    ahead: int
    loss: float


class Weighing(NamedTuple):
    """What preemptions are weighed by, of each row.

    Attributes:
        worth: As in `Starter`.
        loss: As in `Victim`.
        release_rate: As in `Policy`.
    """

    worth: Callable[[int], float]
    loss: Callable[[int], float]
    release_rate: float = math.inf


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


def weigh(free: int, starters: Sequence[Starter], victims: Sequence[Victim], release_rate: float = math.inf) -> Weighed:
    """Return which victims keep their GPUs: those whose preemption costs more than the starts that it makes possible are worth.

    A spared victim takes its GPUs from the last starters, from all of them where they have fewer. Those of them that rank before it
    are its price: a starter counts with its worth, and with at least the seconds until running jobs that end have released its GPUs
    and those of the displaced ones before it, at `release_rate`. Each victim that is spared changes the price of all others. So the
    first one whose preemption costs more than its price is spared, until there is none.

    Of victims with the same GPUs and the same loss the first one has the lowest price, because the fewest starters rank before it:
    only the first one of each such kind is weighed. O(kinds x GPUs of a victim) for each spared victim.

    Args:
        free: GPUs that are unallocated once all starters have started and all victims have released their GPUs. Below 0 where
            GPUs that jobs hold are promised to others.
        starters: The starters in the order of the walk.
        victims: The victims in the order of the walk.
        release_rate: GPUs per second; inf: worth alone counts.
    """
    starts, spared, kinds = len(starters), list[int](), _kinds(victims)
    place = 0
    while place < len(kinds):
        victim = victims[kinds[place][0]]
        cut, available, worth = _weighed(free, starters, starts, victim, release_rate)
        if worth >= victim.loss:
            place += 1
            continue
        starts, free = cut, available - victim.gpus
        alike, place = kinds.pop(place), 0
        spared.append(alike.popleft())
        if alike:
            insort(kinds, alike)
    return Weighed(starts, sorted(spared), free)


def _kinds(victims: Sequence[Victim]) -> list[deque[int]]:
    """Return the places of victims with the same GPUs and the same loss, in the order of the first ones."""
    kinds = defaultdict[tuple[int, float], deque[int]](deque)
    for place, victim in enumerate(victims):
        kinds[victim.gpus, victim.loss].append(place)
    return list(kinds.values())


def _weighed(
    free: int, starters: Sequence[Starter], starts: int, victim: Victim, release_rate: float
) -> tuple[int, int, float]:
    """Return what sparing the victim means for the first `starts` starters: how many still start, the GPUs available to the victim,
    and the worth of the displaced ones that rank before it."""
    cut, available = starts, free
    while cut and available < victim.gpus:
        cut -= 1
        available += starters[cut].gpus
    displaced = starters[cut : min(starts, victim.ahead)]
    return cut, available, _worth(displaced, release_rate) if displaced else -math.inf


def _worth(starters: Sequence[Starter], release_rate: float) -> float:
    """Return what the starts are worth together: the first one gets the GPUs that are released first."""
    worth, gpus = 0.0, 0
    for starter in starters:
        gpus += starter.gpus
        worth += max(starter.worth, gpus / release_rate if release_rate else math.inf)
    return worth


class CostAware:
    """A victim releases its GPUs where the starts for which it is preempted are worth the cost (`weigh`)."""

    def released(self, snapshot: Snapshot, walk: Walk) -> Bools:
        """Return whether each victim of the walk is worth its preemption."""
        return worthwhile(walk)


def worthwhile(walk: Walk) -> Bools:
    """Return whether the preemption of each job of the walk is worth its cost, shape (competing jobs,)."""
    starters, victims = np.flatnonzero(walk.starters), np.flatnonzero(walk.victims)
    ahead = np.searchsorted(starters, victims).tolist()
    weighed = weigh(
        walk.free,
        list(map(Starter, walk.gpus[starters].tolist(), walk.worth[starters].tolist())),
        list(map(Victim, walk.gpus[victims].tolist(), ahead, walk.loss[victims].tolist())),
        walk.release_rate,
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
