"""Builds a network switch by switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tiresias.simulator.topologies.network import Network, NetworkLinks, check_count
from tiresias.simulator.topologies.server_kinds import QUAD, ServerKind, kinds_of

PAPER_GBITS = (10.0, 20.0, 40.0)  # of the tiers, from the servers up (marl-placement, section VI-A)


class NetworkOptions(NamedTuple):
    """What each topology may have.

    Attributes:
        bandwidths: Gbit/s of the links of each tier, from the servers up; the last one counts for all tiers above it, too.
        servers: The kinds of servers, in turn.
    """

    bandwidths: Sequence[float] = PAPER_GBITS
    servers: tuple[ServerKind, ...] = (QUAD,)


class NetworkBuilder:
    """A network that is being built. All its servers are there from the beginning.

    Args:
        name: Of the network.
        servers: Number of servers, or their names.
        options: Bandwidths and kinds of servers.

    Raises:
        UsageError: There are no servers, or too many.
    """

    def __init__(self, name: str, servers: int | Sequence[str], options: NetworkOptions) -> None:
        count = servers if isinstance(servers, int) else len(servers)
        check_count(name, count)
        self._name, self._options = name, options
        names = (f"node{row:05}" for row in range(count))
        self._servers = tuple(names) if isinstance(servers, int) else tuple(servers)
        self._switches: list[str] = []
        self._links: list[tuple[int, int, float, int]] = []

    def switches(self, kind: str, count: int) -> range:
        """Add switches, and return their numbers as ends of links."""
        first = len(self._servers) + len(self._switches)
        self._switches += (f"{kind}{row}" for row in range(count))
        return range(first, first + count)

    def switch(self, name: str) -> int:
        """Add one switch, and return its number."""
        self._switches.append(name)
        return len(self._servers) + len(self._switches) - 1

    def connect(self, one: int, other: int, tier: int) -> None:
        """Add a link of a tier."""
        bandwidths = self._options.bandwidths
        self._links.append((one, other, float(bandwidths[min(tier, len(bandwidths) - 1)]), tier))

    def network(self, groups: Mapping[str, npt.ArrayLike]) -> Network:
        """Return the network. `groups`: as the attribute of `Network`."""
        first, second, bandwidth, tier = zip(*self._links, strict=True) if self._links else ((),) * 4
        links = NetworkLinks(
            np.array(first, np.int64),
            np.array(second, np.int64),
            np.array(bandwidth, np.float64),
            np.array(tier, np.int64),
        )
        kinds = kinds_of(len(self._servers), self._options.servers)
        of = {level: np.asarray(each, np.int64) for level, each in groups.items()}
        return Network(self._name, self._servers, kinds, tuple(self._switches), links, of)
