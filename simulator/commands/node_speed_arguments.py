"""The options of `tiresias simulate` and `tiresias placement evaluate` on nodes of different speeds."""

from __future__ import annotations

import argparse
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.simulated_node_speeds import SimulatedNodeSpeeds, read_node_speeds, read_sensitivities


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options."""
    group.add_argument(
        "--node-speeds", type=Path, metavar="FILE.csv",
        help="node,slowness: seconds a step on each node divided by those on the median node; a job is as slow as its slowest "
        "node; fastest_nodes places jobs by it (default: all nodes are equal)",
    )  # fmt: skip
    group.add_argument(
        "--speed-sensitivity", type=read_sensitivities, metavar="MODEL=X,...",
        help="parts of the logarithm of the slowness by which steps of models are longer, 0 to 1 (default: 1)",
    )  # fmt: skip


def node_speeds(args: argparse.Namespace, cluster: ClusterSize) -> SimulatedNodeSpeeds | None:
    """Return the speeds of the nodes of `tiresias simulate`; None: they are equal.

    Raises:
        UsageError: As `speeds_of`, or jobs are not placed on nodes.
    """
    if args.node_speeds is not None and args.placement is None:
        raise UsageError("--node-speeds: jobs are not placed on nodes; give --placement STYLE, too")
    return speeds_of(args, cluster)


def speeds_of(args: argparse.Namespace, cluster: ClusterSize) -> SimulatedNodeSpeeds | None:
    """Return the speeds of the nodes; None: they are equal.

    Raises:
        UsageError: The file is impossible, or an option has no meaning without another one.
    """
    if args.node_speeds is None:
        if args.speed_sensitivity is not None:
            raise UsageError("--speed-sensitivity has no meaning without --node-speeds; leave it out")
        return None
    return SimulatedNodeSpeeds(read_node_speeds(args.node_speeds, cluster.names), args.speed_sensitivity or {})
