"""What jobs use of the sockets of servers, and how much they slow each other there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates.interference import Contention, InterferenceModel, cpu_of_others
from tiresias.simulator.contention.job_profiles import JobProfile
from tiresias.simulator.topologies.server_kinds import ServerKind


class PartOfServer(NamedTuple):
    """What a job has of one server.

    Attributes:
        server: Row of the server.
        gpus: GPUs on each socket.
    """

    server: int
    gpus: tuple[int, ...]


class _Use(NamedTuple):
    """What a job uses on one server, as parts of the capacity of each socket; and which sockets it has."""

    cpu: tuple[float, ...]
    pcie: tuple[float, ...]
    sockets: tuple[int, ...]


class ServerLoads:
    """The jobs on each server. Uses are added up anew where they change, so that they do not depend on earlier jobs.

    Args:
        kinds: The kind of each server.
        model: How jobs slow each other.

    Attributes:
        cpu: What jobs use of the processor of each socket, as a part of the capacity, shape (servers, sockets).
        pcie: The same of the PCIe links.
    """

    def __init__(self, kinds: Sequence[ServerKind], model: InterferenceModel) -> None:
        self._kinds = kinds
        self._uses: dict[int, dict[int, _Use]] = {}  # by server, by job
        self._factors: dict[int, dict[int, float]] = {}
        self._slowdown = _remembered(model)
        self.cpu, self.pcie = (np.zeros((len(kinds), kinds[0].sockets)) for _ in range(2))

    def add(self, job: int, profile: JobProfile, parts: Iterable[PartOfServer]) -> None:
        """Add a job to its servers. O(jobs of a server, squared), for each of them."""
        for server, gpus in parts:
            kind = self._kinds[server]
            cpu, pcie = profile.cores / kind.cores, profile.pcie / kind.pcie
            sockets = tuple(socket for socket, count in enumerate(gpus) if count)
            use = _Use(tuple(count * cpu for count in gpus), tuple(count * pcie for count in gpus), sockets)
            self._uses.setdefault(server, {})[job] = use
            self._refresh(server)

    def remove(self, job: int, parts: Iterable[PartOfServer]) -> None:
        """Remove a job from its servers."""
        for server, _ in parts:
            del self._uses[server][job]
            self._refresh(server)

    def jobs(self, server: int) -> Iterable[int]:
        """Return the jobs on a server."""
        return self._uses.get(server, ())

    def slowdown(self, job: int, parts: Iterable[PartOfServer]) -> float:
        """Return the factor by which the others slow the slowest part of a job, 1 or more."""
        return max([self._factors[server][job] for server, _ in parts])

    def _refresh(self, server: int) -> None:
        """Compute what depends on the jobs of a server."""
        uses = self._uses[server]
        self.cpu[server] = _total([use.cpu for use in uses.values()]) or 0.0
        self.pcie[server] = _total([use.pcie for use in uses.values()]) or 0.0
        self._factors[server] = {
            job: self._factor(job, use, uses) if len(uses) > 1 else 1.0 for job, use in uses.items()
        }

    def _factor(self, job: int, use: _Use, uses: Mapping[int, _Use]) -> float:
        others = [each for other, each in uses.items() if other != job]
        cpu, pcie = _total([each.cpu for each in others]), _total([each.pcie for each in others])
        beyond = [max(each - 1.0, 0.0) for each in cpu]
        return max(
            self._slowdown(use.cpu[at], cpu[at], 1.0 + sum(beyond) - beyond[at], use.pcie[at], pcie[at])
            for at in use.sockets
        )


def _total(uses: Sequence[tuple[float, ...]]) -> list[float]:
    """Return the sum of uses, by socket; empty where there are none."""
    return [sum(of_socket, 0.0) for of_socket in zip(*uses, strict=True)]


def _remembered(model: InterferenceModel) -> Callable[[float, float, float, float, float], float]:
    @lru_cache(maxsize=100_000)
    def slowdown(cpu: float, same_socket: float, other_sockets: float, pcie: float, pcie_others: float) -> float:
        one = np.array
        others = cpu_of_others(one([same_socket]), one([other_sockets]))
        nothing = np.zeros(1)
        found = Contention(
            one([cpu]),
            others,
            nothing,
            nothing,
            one([pcie]),
            one([pcie_others]),
            network=nothing,
            network_others=nothing,
        )
        return float(model.slowdown(found)[0])

    return slowdown
