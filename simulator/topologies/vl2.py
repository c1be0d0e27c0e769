"""VL2 (Greenberg et al., SIGCOMM 2009): of a aggregation and i intermediate switch ports, a x i / 4 leaf switches with two links
each to the i aggregation switches, which are all connected to a / 2 intermediate switches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiresias.errors import UsageError
from tiresias.simulator.topologies.network import Network, check_count
from tiresias.simulator.topologies.network_builder import NetworkBuilder, NetworkOptions

SHAPE = "a,i[,servers of a leaf]"
SERVERS_OF_A_LEAF = 20  # section 4.1 there


def vl2(shape: Sequence[int], options: NetworkOptions) -> Network:
    """Return a VL2 network.

    Args:
        shape: Ports of an aggregation switch, ports of an intermediate switch, both even; servers of a leaf switch (20).
        options: Bandwidths of three tiers, and kinds of servers.

    Raises:
        UsageError: The numbers are not possible.
    """
    name = f"vl2:{','.join(map(str, shape))}"
    if len(shape) not in (2, 3) or min(shape) < 1 or shape[0] % 2 or shape[1] % 2:
        raise UsageError(
            f"{name}: give the ports of both kinds of switches, even numbers, such as vl2:4,4 or vl2:4,4,16"
        )
    ports, aggregation_count = shape[0], shape[1]
    per_leaf = shape[2] if len(shape) == 3 else SERVERS_OF_A_LEAF
    leaf_count = ports * aggregation_count // 4
    check_count(name, leaf_count * per_leaf)
    builder = NetworkBuilder(name, leaf_count * per_leaf, options)
    leaves, aggregations = builder.switches("leaf", leaf_count), builder.switches("aggregation", aggregation_count)
    for server in range(leaf_count * per_leaf):
        builder.connect(server, leaves[server // per_leaf], 0)
    for row, leaf in enumerate(leaves):
        for place in (2 * row, 2 * row + 1):
            builder.connect(leaf, aggregations[place % aggregation_count], 1)
    for intermediate in builder.switches("intermediate", ports // 2):
        for aggregation in aggregations:
            builder.connect(aggregation, intermediate, 2)
    return builder.network({"leaf": np.arange(leaf_count * per_leaf) // per_leaf})
