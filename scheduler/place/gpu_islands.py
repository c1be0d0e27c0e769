"""Islands: parts of a node whose GPUs are closer to each other than to the rest, such as those on a socket or joined by NVLink.

Tiresias chooses the node of a job, and Slurm chooses its GPUs: those of one socket where possible, on the socket with the most idle
cores (measured on 26.05, cons_tres). So a job is placed on a node where that choice suits it and leaves other islands whole. Until
Slurm reports the GPUs, they are predicted by the same rule.

A division (topology_tree.py) has the number of equal islands on each level of a node. Islands of the finest level are counted;
those of the other levels consist of them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from tiresias.scheduler.topology_tree import Division, Topology, island_count

IslandGpus = tuple[int, ...]  # on each island of the finest level


class FreeShape(NamedTuple):
    """What is free on a node.

    Attributes:
        gpus: GPUs free for a job; less than the sum of `free` where CPUs or memory are short.
        division: Islands of the node on each level.
        free: GPUs free on each island of the finest level.
    """

    gpus: int
    division: Division
    free: IslandGpus

    def cost(self, gpus: int) -> tuple[int, ...]:
        """Return the cost of a job of so many GPUs on such a node; less is better."""
        return (*choose(self.free, self.division, gpus).cost, self.gpus)

    @property
    def wholeness(self) -> tuple[int, ...]:
        """A sort key: nodes with smaller values lose less when a job takes all or part of them."""
        return (self.gpus, *sorted(self.free, reverse=True))


@lru_cache(maxsize=1000)
def plain(gpus: int) -> FreeShape:
    """Return the shape of a node without known islands."""
    return FreeShape(gpus, (), ())


class IslandChoice(NamedTuple):
    """The GPUs that Slurm takes of a node.

    Attributes:
        cost: The number of islands of each level that are used, then the number of GPUs that were free on these.
        taken: GPUs on each island of the finest level.
    """

    cost: tuple[int, ...]
    taken: IslandGpus


@lru_cache(maxsize=100_000)
def alike(free: IslandGpus, division: Division) -> IslandGpus:
    """Return the free GPUs in an order that is equal for all nodes that differ only in the order of their islands."""
    if len(free) < 2 or max(division) == 1:
        return free
    first = min(level for level in division if level > 1)
    size, finer = len(free) // first, tuple(max(level // first, 1) for level in division)
    parts = [alike(free[at : at + size], finer) for at in range(0, len(free), size)]
    return tuple(count for part in sorted(parts, reverse=True) for count in part)


@lru_cache(maxsize=100_000)
def choose(free: IslandGpus, division: Division, gpus: int) -> IslandChoice:
    """Return what Slurm takes of a node: the fewest islands, then those with the most free GPUs; all islands where fewer GPUs are
    known to be free than the job needs. O(2^islands) the first time."""
    every = tuple(range(len(free)))
    sets = [some for some in _sets(free) if _sum_of(free, some) >= gpus]
    chosen = min(sets, key=lambda some: (*_touched(free, division, some), -_sum_of(free, some)), default=every)
    taken = [0] * len(free)
    for at in chosen:
        taken[at] = min(free[at], gpus - sum(taken))
    return IslandChoice((*_touched(free, division, chosen), _sum_of(free, chosen)), tuple(taken))


def _sets(free: IslandGpus) -> Iterator[tuple[int, ...]]:
    places = [at for at, count in enumerate(free) if count]
    return (some for size in range(1, len(places) + 1) for some in combinations(places, size))


def _touched(free: IslandGpus, division: Division, some: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of islands of each level that this set touches."""
    return tuple(len({at * islands // len(free) for at in some}) for islands in division)


def _sum_of(free: IslandGpus, some: tuple[int, ...]) -> int:
    return sum(free[at] for at in some)


class Islands:
    """The GPUs that are free on the islands of all nodes."""

    def __init__(self, topology: Topology, free: Sequence[memoryview[float]]) -> None:
        """free: GPUs free on the first island of each node, on the second, and so on: views that are read and written one
        number at a time."""
        self._divisions, self._free = topology.divisions, free

    def shape(self, node: int, gpus: int) -> FreeShape:
        """Return what is free on a node. gpus: GPUs free for a job."""
        division, free = self._of(node)
        return FreeShape(gpus, division, alike(free, division))

    def take(self, node: int, gpus: int, island: int | None) -> None:
        """Take GPUs from the islands that Slurm would choose. island: the only one that the job may use; None: any."""
        division, free = self._of(node)
        some = free if island is None else tuple(count if at == island else 0 for at, count in enumerate(free))
        for column, taken in zip(self._free, choose(some, division, gpus).taken, strict=False):
            column[node] -= taken

    def _of(self, node: int) -> tuple[Division, IslandGpus]:
        division = self._divisions[node]
        return division, tuple([int(column[node]) for column in self._free[: island_count(division)]])
