"""Which preemptions of the walk are worth their cost, for policies that weigh them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tiresias.scheduler.evict.by_rank import walk
from tiresias.scheduler.model import Bools, Floats, Ints


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


Fill: TypeAlias = Callable[[Bools, Ints, int], Bools]


def spare(cost: Ints, selected: Bools, runs: Bools, worth: Floats, capacity: int, fill: Fill | None = None) -> Bools:
    """The selection without the preemptions that are not worth it (`weigh`); what that leaves free goes to waiting jobs in order.

    All of shape (jobs,) in the order of the walk. selected: by `walk`; runs: holds its GPUs now; worth: as of `Starter`.
    fill: of a selection, the places of the waiting jobs outside of it and the free GPUs, which of those jobs get some; by default
    those that `walk` takes.
    """
    starters, victims = np.flatnonzero(selected & ~runs), np.flatnonzero(~selected & runs)
    verdict = weigh(
        capacity - int(cost[selected].sum()),
        list(map(Starter, cost[starters].tolist(), worth[starters].tolist())),
        list(map(Victim, cost[victims].tolist(), np.searchsorted(starters, victims).tolist())),
    )
    if not verdict.spared:
        return selected
    selected = selected.copy()
    selected[starters[verdict.starts :]] = False
    selected[victims[verdict.spared]] = True
    left = np.flatnonzero(~selected & ~runs)
    taken = fill(selected, left, verdict.free) if fill else walk(cost[left], verdict.free, False)
    selected[left[taken]] = True
    return selected
