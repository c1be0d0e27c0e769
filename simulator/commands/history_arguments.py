"""The options of commands on a site's history, from the accounting of a cluster or a trace: `whatif`, `tune` and `vc suggest`."""

from __future__ import annotations

import argparse

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator import slurm_accounting
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.commands.arguments import configure_trace, needed
from tiresias.simulator.experiments.experiment import Setup, read
from tiresias.simulator.simulation_rules import Cost


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    configure_trace(parser)
    parser.add_argument(
        "--since", default="now-90days", metavar="WHEN", help="without TRACE: as sacct takes it (default: %(default)s)"
    )
    parser.add_argument(
        "--partition",
        type=types.words,
        default=(),
        metavar="P[,P...]",
        help="only jobs of these (default: all that ask for GPUs)",
    )
    parser.add_argument(
        "--cluster",
        default="",
        metavar="NAME",
        help="without TRACE: the jobs of this cluster of the same slurmdbd (sacct -M; default: the local one); --nodes and "
        "--gpus-per-node give its size where its slurmctld does not answer",
    )
    parser.add_argument(
        "--preemption-cost",
        type=types.cost,
        default=Cost(0.0, 60.0),
        metavar="SECONDS|PAUSE,RESUME",
        help="as of tiresias simulate (default: 60)",
    )


def setup(args: argparse.Namespace, config: PolicyConfig, *, equal_nodes: bool = False) -> Setup:
    """Return the setup of commands on a site's history, from a trace or from the accounting of the local cluster.

    Args:
        args: The options of `configure`.
        config: The configuration of the policies.
        equal_nodes: Refuse a cluster whose nodes have different numbers of GPUs.
    """
    if args.trace is None:
        return _of_accounting(args, config, equal_nodes)
    if args.cluster:
        raise UsageError("--cluster reads Slurm's accounting: leave TRACE out")
    cluster = ClusterSize(needed(args.nodes, "--nodes N"), needed(args.gpus_per_node, "--gpus-per-node G"))
    trace = read(args.trace, cluster.gpus, args.format)
    return Setup(args.trace.name, trace.of_partitions(args.partition), cluster, config, args.preemption_cost)


def _of_accounting(args: argparse.Namespace, config: PolicyConfig, equal_nodes: bool) -> Setup:
    is_sized = args.cluster and args.nodes and args.gpus_per_node
    size = ClusterSize(args.nodes, args.gpus_per_node) if is_sized else None
    found = slurm_accounting.history(args.since, args.partition, equal_nodes=equal_nodes, of=args.cluster, size=size)
    return Setup(
        f"accounting of {args.cluster}" if args.cluster else "accounting", *found, config, args.preemption_cost
    )
