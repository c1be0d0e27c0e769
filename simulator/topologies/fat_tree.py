"""The k-ary fat tree (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008): k pods of k/2 leaf and k/2 aggregation switches, k^2/4 core
switches, k^3/4 servers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiresias.errors import UsageError
from tiresias.simulator.topologies.network import Network, check_count
from tiresias.simulator.topologies.network_builder import NetworkBuilder, NetworkOptions

SHAPE = "k"


def fat_tree(shape: Sequence[int], options: NetworkOptions) -> Network:
    """Return a fat tree of switches with k ports.

    Args:
        shape: k, an even number.
        options: Bandwidths of three tiers, and kinds of servers.

    Raises:
        UsageError: The number is not possible.
    """
    name = f"fat_tree:{','.join(map(str, shape))}"
    if len(shape) != 1 or shape[0] < 2 or shape[0] % 2:
        raise UsageError(f"{name}: give the ports of a switch, an even number of 2 or more, such as fat_tree:4")
    (k,) = shape
    half, count = k // 2, k**3 // 4
    check_count(name, count)
    builder = NetworkBuilder(name, count, options)
    leaves, aggregations = builder.switches("leaf", k * half), builder.switches("aggregation", k * half)
    cores = builder.switches("core", half * half)
    for server in range(count):
        builder.connect(server, leaves[server // half], 0)
    for pod in range(k):
        _connect_pod(builder, pod, half, leaves, aggregations, cores)
    rows = np.arange(count)
    return builder.network({"leaf": rows // half, "pod": rows // (half * half)})


def _connect_pod(
    builder: NetworkBuilder, pod: int, half: int, leaves: range, aggregations: range, cores: range
) -> None:
    for place in range(half):
        aggregation = aggregations[pod * half + place]
        for other in range(half):
            builder.connect(leaves[pod * half + other], aggregation, 1)
            builder.connect(aggregation, cores[place * half + other], 2)
