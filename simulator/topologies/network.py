"""A network: servers, switches, and links with a bandwidth between them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints
from tiresias.scheduler.topology_tree import LEAF, MAX_ISLANDS, Topology
from tiresias.simulator.topologies.server_kinds import ServerKind

MOST_SERVERS = 50_000
MOST_GBITS = 1e6  # of a link
SOCKET = "socket"


class NetworkLinks(NamedTuple):
    """The links, one row each; arrays of shape (links,). A link has its bandwidth in either direction.

    Attributes:
        first, second: Its ends. Servers are numbered first, then the switches.
        bandwidth: Gbit/s.
        tier: 0 for links of servers, 1 for those of leaf switches to switches above them, and so on.
    """

    first: Ints
    second: Ints
    bandwidth: Floats
    tier: Ints


@dataclass(frozen=True, eq=False)
class Network:
    """Servers and switches, and how they are connected. Neighbouring servers have neighbouring rows.

    Attributes:
        name: As on the command line, such as fat_tree:4.
        servers: Name of each server.
        kinds: Kind of each server.
        switches: Name of each switch.
        links: The links.
        groups: By the name of each level, the nearest one, "leaf", first: the index of each server's group, shape (servers,).

    Raises:
        UsageError: There are no servers or too many, a name occurs twice, a bandwidth is impossible, or a server is not connected.
    """

    name: str
    servers: tuple[str, ...]
    kinds: tuple[ServerKind, ...]
    switches: tuple[str, ...]
    links: NetworkLinks
    groups: Mapping[str, Ints]

    def __post_init__(self) -> None:
        check_count(self.name, len(self.servers))
        _check_names(self.name, self.servers)
        _check_names(self.name, self.switches)
        _check_kinds(self.name, self.kinds)
        _check_links(self.name, self.links)
        self._check_connected()

    @property
    def size(self) -> int:
        """The number of servers and switches."""
        return len(self.servers) + len(self.switches)

    @cached_property
    def gpus(self) -> Ints:
        """The GPUs of each server, shape (servers,)."""
        return np.array([kind.gpus for kind in self.kinds], np.int64)

    @property
    def sockets(self) -> int:
        """The number of sockets of each server."""
        return self.kinds[0].sockets

    @property
    def leaf(self) -> Ints:
        """The index of each server's leaf switch, shape (servers,)."""
        return self.groups[LEAF]

    @property
    def tier_bandwidths(self) -> tuple[float, ...]:
        """Gbit/s of a link of each tier, from servers up."""
        _, first = np.unique(self.links.tier, return_index=True)
        return tuple(self.links.bandwidth[first].tolist())

    def partition(self, level: str = LEAF) -> Ints:
        """Return the partition of each server, shape (servers,): its group of a level, numbered from 0 without gaps.

        Raises:
            UsageError: There is no such level.
        """
        if level not in self.groups:
            raise UsageError(f"{self.name}: has no level {level[:40]!r}; there are {', '.join(self.groups)}")
        found: Ints = np.unique(self.groups[level], return_inverse=True)[1].astype(np.int64)
        return found

    @cached_property
    def tree(self) -> Topology:
        """The same as the scheduler sees it: groups of servers, servers, sockets, GPUs."""
        names = tuple(self.groups)[::-1]
        whole = Topology(self.gpus, names, tuple(self.groups[name] for name in names))
        count = len(self.servers)
        return whole.with_parts((SOCKET,), [(self.sockets,)] * count, [True] * count) if self.sockets > 1 else whole

    @cached_property
    def neighbours(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each server and switch the ends of its links and their rows, in ascending order of the ends."""
        found: list[list[tuple[int, int]]] = [[] for _ in range(self.size)]
        for row, (one, other) in enumerate(zip(self.links.first.tolist(), self.links.second.tolist(), strict=True)):
            found[one].append((other, row))
            found[other].append((one, row))
        return tuple(tuple(sorted(each)) for each in found)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all but the names, which two networks share if and only if they are equal."""
        found = hashlib.sha256()
        for column in (*self.links, *self.groups.values()):
            found.update(np.ascontiguousarray(column).tobytes())
        found.update(repr((self.kinds, len(self.switches))).encode())
        return found.hexdigest()

    def _check_connected(self) -> None:
        reached, todo = {0}, [0]
        while todo:
            new = [end for end, _ in self.neighbours[todo.pop()] if end not in reached]
            reached.update(new)
            todo += new
        lost = next((name for row, name in enumerate(self.servers) if row not in reached), None)
        if lost is not None:
            raise UsageError(
                f"{self.name}: server {lost} has no path to server {self.servers[0]}; connect their switches"
            )


def check_count(name: str, servers: int) -> None:
    """Raise UsageError for an impossible number of servers."""
    if not 0 < servers <= MOST_SERVERS:
        raise UsageError(f"{name}: has {servers:,} servers; give 1 to {MOST_SERVERS:,}")


def _check_names(network: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{network}: {name[:40]} occurs twice; remove one")
        seen.add(name)


def _check_kinds(network: str, kinds: Sequence[ServerKind]) -> None:
    for kind in kinds:
        if kind.sockets != kinds[0].sockets or kind.sockets > MAX_ISLANDS or kind.gpus % kind.sockets or kind.gpus < 1:
            raise UsageError(
                f"{network}: servers of {kind.gpus} GPUs on {kind.sockets} sockets are not possible; give all servers equally "
                f"many sockets, {MAX_ISLANDS} at most, that share the GPUs equally"
            )


def _check_links(network: str, links: NetworkLinks) -> None:
    possible = (links.bandwidth > 0.0) & (links.bandwidth <= MOST_GBITS)
    if not possible.all():
        found = float(links.bandwidth[~possible][0])
        raise UsageError(
            f"{network}: a bandwidth of {found:g} Gbit/s is not possible; give one above 0, {MOST_GBITS:g} at most"
        )
