"""Failures of nodes: the jobs on a failed node lose the work since their last checkpoint and wait again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias


class Failure(NamedTuple):
    """The failure of one node.

    Attributes:
        time: When it fails, seconds.
        node: Index of the node.
        down: Seconds until it is usable again.
    """

    time: float
    node: int
    down: float


Failures: TypeAlias = Callable[[int], Iterable[Failure]]  # of a cluster with so many nodes, by time


@dataclass(frozen=True, slots=True)
class Listed:
    """Given failures, for example from the log of a site."""

    failures: tuple[Failure, ...]

    def __call__(self, nodes: int) -> Iterator[Failure]:
        return iter(sorted(self.failures))


@dataclass(frozen=True, slots=True)
class Exponential:
    """Random failures with exponential distributions, without end. The same seed gives the same failures.

    Attributes:
        mtbf: Mean time between two failures of one node, seconds.
        repair: Mean time that a node is down, seconds.
        seed: Seed of the random numbers.
    """

    mtbf: float
    repair: float
    seed: int

    def __call__(self, nodes: int) -> Iterator[Failure]:
        dice, time = random.Random(self.seed), 0.0
        while True:
            time += dice.expovariate(nodes / self.mtbf)
            yield Failure(time, dice.randrange(nodes), dice.expovariate(1 / self.repair))


class Outage(NamedTuple):
    """A node goes down, or is usable again."""

    node: int
    down: bool


class Outages:
    """Failures and repairs in the order in which they happen. A node that is down cannot fail."""

    def __init__(self, failures: Iterable[Failure]) -> None:
        self._failures = iter(failures)
        self._coming = self._next_failure()
        self._back: list[tuple[float, int]] = []  # (time, node)
        self.moment = self._coming.time  # of the next outage; inf for never

    def _next_failure(self) -> Failure:
        return next(self._failures, Failure(math.inf, 0, 0.0))

    def happen(self, now: float) -> list[Outage]:
        """Return the outages that are due."""
        outages: list[Outage] = []
        while self.moment <= now:
            outages.extend(self._next())
            self.moment = min(self._coming.time, self._back[0][0] if self._back else math.inf)
        return outages

    def _next(self) -> Iterator[Outage]:
        """Return the next outage, or none where the failing node is down already."""
        if self._back and self._back[0][0] <= self._coming.time:
            yield Outage(heappop(self._back)[1], down=False)
            return
        failure, self._coming = self._coming, self._next_failure()
        if all(node != failure.node for _, node in self._back):
            heappush(self._back, (failure.time + failure.down, failure.node))
            yield Outage(failure.node, down=True)
