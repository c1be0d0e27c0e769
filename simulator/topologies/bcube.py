"""BCube (Guo et al., SIGCOMM 2009): n^(k+1) servers with k + 1 ports each, and k + 1 levels of n^k switches with n ports. Servers
forward what they receive for others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiresias.errors import UsageError
from tiresias.simulator.topologies.network import MOST_SERVERS, Network, check_count
from tiresias.simulator.topologies.network_builder import NetworkBuilder, NetworkOptions

SHAPE = "n,k"


def bcube(shape: Sequence[int], options: NetworkOptions) -> Network:
    """Return BCube_k of switches with n ports. All links are links of servers; those of level 1 and above are of the same tier.

    Args:
        shape: n, 2 or more; k, 0 or more.
        options: The bandwidth of the first tier, and kinds of servers.

    Raises:
        UsageError: The numbers are not possible.
    """
    name = f"bcube:{','.join(map(str, shape))}"
    if len(shape) != 2 or shape[0] < 2 or not 0 <= shape[1] < MOST_SERVERS.bit_length():
        raise UsageError(f"{name}: give the ports of a switch and the highest level, such as bcube:4,1 (16 servers)")
    n, k = shape
    check_count(name, n ** (k + 1))
    builder = NetworkBuilder(name, n ** (k + 1), options)
    rows = np.arange(n ** (k + 1))
    groups = {}
    for level in range(k + 1):
        switch = rows // n ** (level + 1) * n**level + rows % n**level  # the server's digits without that of the level
        switches = builder.switches(f"level{level}-", n**k)
        for server, of in enumerate(switch.tolist()):
            builder.connect(server, switches[of], 0)
        groups["leaf" if level == 0 else f"cube{level}"] = rows // n ** (level + 1)
    return builder.network(groups)
