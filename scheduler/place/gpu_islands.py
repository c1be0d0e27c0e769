"""Islands: parts of a node whose GPUs are closer to each other than to the rest, such as those on a socket or joined by NVLink.

Which node a job gets is for us to choose, which GPUs of it is for Slurm: those of one socket where it can, on the socket with the
most idle cores (measured on 26.05, cons_tres). So a job is put on a node where that is good for it and breaks little, and until
Slurm says which GPUs they are, they are taken to be those.

A division says into how many equal islands each level divides a node's GPUs, the nearest level first, 1 where nothing is known.
Islands of the finest level are counted; those of the others are made of them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from tiresias.scheduler.topology_tree import Division, Topology, island_count

Rooms = tuple[int, ...]  # GPUs free on each island of the finest level


class FreeShape(NamedTuple):
    """What is free on a node. gpus: what it can give, for want of CPUs perhaps less than is free on its islands together."""

    gpus: int
    division: Division
    rooms: Rooms

    def cost(self, gpus: int) -> tuple[int, ...]:
        """Of a job of so many GPUs on such a node: less is better."""
        return (*choose(self.rooms, self.division, gpus).cost, self.gpus)

    @property
    def wholeness(self) -> tuple[int, ...]:
        """The less, the less is lost when a job takes all or part of it."""
        return (self.gpus, *sorted(self.rooms, reverse=True))


@lru_cache(maxsize=1000)
def plain(gpus: int) -> FreeShape:
    """Of a node of whose islands nothing is known."""
    return FreeShape(gpus, (), ())


class IslandChoice(NamedTuple):
    """taken: GPUs on each island of the finest level. cost: how many islands of each level that takes, then how many GPUs were
    free on those."""

    cost: tuple[int, ...]
    taken: Rooms


@lru_cache(maxsize=100_000)
def alike(rooms: Rooms, division: Division) -> Rooms:
    """The same for all nodes that differ only in the order of their islands."""
    if len(rooms) < 2 or max(division) == 1:
        return rooms
    first = min(level for level in division if level > 1)
    size, finer = len(rooms) // first, tuple(max(level // first, 1) for level in division)
    parts = [alike(rooms[at : at + size], finer) for at in range(0, len(rooms), size)]
    return tuple(room for part in sorted(parts, reverse=True) for room in part)


@lru_cache(maxsize=100_000)
def choose(rooms: Rooms, division: Division, gpus: int) -> IslandChoice:
    """What Slurm takes of a node: the fewest islands, then the roomiest. Where the islands are known to have fewer GPUs than
    the node, all of them. O(2^islands) the first time."""
    every = tuple(range(len(rooms)))
    sets = [some for some in _sets(rooms) if _room(rooms, some) >= gpus]
    chosen = min(sets, key=lambda some: (*_touched(rooms, division, some), -_room(rooms, some)), default=every)
    taken = [0] * len(rooms)
    for at in chosen:
        taken[at] = min(rooms[at], gpus - sum(taken))
    return IslandChoice((*_touched(rooms, division, chosen), _room(rooms, chosen)), tuple(taken))


def _sets(rooms: Rooms) -> Iterator[tuple[int, ...]]:
    free = [at for at, room in enumerate(rooms) if room]
    return (some for size in range(1, len(free) + 1) for some in combinations(free, size))


def _touched(rooms: Rooms, division: Division, some: tuple[int, ...]) -> tuple[int, ...]:
    """How many islands of each level those are."""
    return tuple(len({at * islands // len(rooms) for at in some}) for islands in division)


def _room(rooms: Rooms, some: tuple[int, ...]) -> int:
    return sum(rooms[at] for at in some)


class Islands:
    """The GPUs that are free on the islands of all nodes."""

    def __init__(self, topology: Topology, free: Sequence[memoryview[float]]) -> None:
        """free: GPUs free on the first island of each node, on the second, and so on: views that are read and written one
        number at a time."""
        self._divisions, self._free = topology.divisions, free

    def shape(self, node: int, gpus: int) -> FreeShape:
        """Of a node that can give so many GPUs."""
        division, rooms = self._of(node)
        return FreeShape(gpus, division, alike(rooms, division))

    def take(self, node: int, gpus: int, island: int | None) -> None:
        """island: the only one that it may use; None: any."""
        division, rooms = self._of(node)
        some = rooms if island is None else tuple(room if at == island else 0 for at, room in enumerate(rooms))
        for column, taken in zip(self._free, choose(some, division, gpus).taken, strict=False):
            column[node] -= taken

    def _of(self, node: int) -> tuple[Division, Rooms]:
        division = self._divisions[node]
        return division, tuple([int(column[node]) for column in self._free[: island_count(division)]])
