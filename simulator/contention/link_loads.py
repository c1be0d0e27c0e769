"""The links of a network that jobs use, and the part of their bandwidth that each job gets."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tiresias.simulator.topologies.network import Network
from tiresias.simulator.topologies.routes import Routes


class LinkLoads:
    """The jobs on each link. A link is shared equally by the jobs that use it.

    Args:
        network: The network.

    Attributes:
        count: The number of jobs on each link, shape (links,).
    """

    def __init__(self, network: Network) -> None:
        self._routes, self._bandwidth = Routes(network), network.links.bandwidth.tolist()
        self._jobs: tuple[set[int], ...] = tuple(set() for _ in self._bandwidth)
        self.count = np.zeros(len(self._jobs), np.int64)
        links = network.links
        of_servers = np.minimum(links.first, links.second) < len(network.servers)
        self._fastest = float(links.bandwidth[of_servers].max(initial=0.0)) or math.inf
        self._most_gpus = sorted(network.gpus.tolist(), reverse=True)

    def links(self, servers: Iterable[int]) -> tuple[int, ...]:
        """Return the rows of the links that a job on these servers uses."""
        return self._routes.ring(list(servers))

    def add(self, job: int, links: Iterable[int]) -> None:
        """Add a job to its links."""
        for link in links:
            self._jobs[link].add(job)
            self.count[link] += 1

    def remove(self, job: int, links: Iterable[int]) -> None:
        """Remove a job from its links."""
        for link in links:
            self._jobs[link].remove(job)
            self.count[link] -= 1

    def jobs(self, link: int) -> set[int]:
        """Return the jobs on a link."""
        return self._jobs[link]

    def bandwidth(self, links: Iterable[int]) -> float:
        """Return the part of the bottleneck link that each of its jobs gets, Gbit/s; inf without links."""
        jobs, bandwidth = self._jobs, self._bandwidth
        return min([bandwidth[link] / len(jobs[link]) for link in links], default=math.inf)

    def best_bandwidth(self, gpus: int) -> float:
        """Return the most that a job of so many GPUs can get: inf on one server, else the fastest link of a server."""
        return math.inf if gpus <= self._most_gpus[0] else self._fastest
