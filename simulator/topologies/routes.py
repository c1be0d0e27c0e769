"""The paths between servers of a network."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from tiresias.simulator.topologies.network import Network


class Routes:
    """Shortest paths, computed when they are first asked for.

    Where there are several, the destination selects one, as in the routing tables of a fat tree: flows to different servers use
    different switches.

    Args:
        network: The network.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._distances: dict[int, array[int]] = {}
        self._paths: dict[tuple[int, int], tuple[int, ...]] = {}

    def path(self, first: int, second: int) -> tuple[int, ...]:
        """Return the rows of the links from a server to another one, in order. O(links) for a new destination."""
        found = self._paths.get((first, second))
        if found is None:
            found = self._paths[first, second] = self._walk(first, second)
        return found

    def ring(self, servers: Sequence[int]) -> tuple[int, ...]:
        """Return the rows of the links that a ring over servers uses, each once, in ascending order. One server uses none.

        Args:
            servers: Rows of the servers; the ring visits them in ascending order.
        """
        order = sorted(set(servers))
        if len(order) < 2:
            return ()
        used = (self.path(one, other) for one, other in zip(order, [*order[1:], order[0]], strict=True))
        return tuple(sorted({link for path in used for link in path}))

    def _walk(self, at: int, to: int) -> tuple[int, ...]:
        distance, neighbours, key = self._to(to), self._network.neighbours, to
        links = []
        while at != to:
            nearer = [each for each in neighbours[at] if distance[each[0]] == distance[at] - 1]
            at, link = nearer[key % len(nearer)]
            key //= len(nearer)
            links.append(link)
        return tuple(links)

    def _to(self, server: int) -> array[int]:
        """Return the number of links from each server and switch to a server."""
        if server not in self._distances:
            found = array("l", [-1]) * self._network.size
            found[server] = 0
            reached = [server]
            for at in reached:
                for end, _ in self._network.neighbours[at]:
                    if found[end] < 0:
                        found[end] = found[at] + 1
                        reached.append(end)
            self._distances[server] = found
        return self._distances[server]
