"""The options of `tiresias simulate` on the network of the cluster, and on jobs that slow each other."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.scheduler.estimates.interference import InterferenceModel, best_model
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.contention.simulated_contention import DEFAULT_INTERFERENCE, SimulatedContention
from tiresias.simulator.interference.interference_samples import read_samples
from tiresias.simulator.topologies.named_topologies import network_of
from tiresias.simulator.topologies.network import MOST_GBITS
from tiresias.simulator.topologies.network_builder import PAPER_GBITS, NetworkOptions
from tiresias.simulator.topologies.server_kinds import SERVERS

_MOST_TIERS = 8
_SIZES = ("nodes", "gpus_per_node", "nodes_per_leaf")


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options."""
    configure_topology(
        group,
        ", in place of --nodes and --gpus-per-node: the exchange of gradients over its links slows jobs on several servers; means "
        "--by-node",
    )
    group.add_argument(
        "--interference", action="store_true",
        help="jobs on the same server slow each other; the models are those of the trace's column model; means --by-node",
    )  # fmt: skip
    configure_samples(group, "; means --interference")


def configure_topology(group: argparse._ArgumentGroup, more: str = "") -> None:
    """Add the options on the network. more: what else --topology means."""
    gbits = ",".join(f"{each:g}" for each in PAPER_GBITS)
    group.add_argument(
        "--topology", metavar="NAME:NUMBERS|FILE",
        help=f"fat_tree:K, vl2:A,I[,S], bcube:N,K, a table of the servers with their switches or a topology.conf{more}",
    )  # fmt: skip
    group.add_argument(
        "--servers", type=types.one_of("--servers", tuple(SERVERS)), metavar="KIND",
        help=f"{', '.join(SERVERS)}: of --topology: 4 GPUs on 2 sockets, 8 GPUs on 2 sockets, or both in turn (default: quad)",
    )  # fmt: skip
    group.add_argument(
        "--bandwidth", type=_bandwidths, metavar="G[,G...]",
        help=f"Gbit/s of the links of --topology, of those of the servers first and then tier by tier up (default: {gbits})",
    )  # fmt: skip


def configure_samples(group: argparse._ArgumentGroup, more: str = "") -> None:
    """Add the option on measured interference. more: what else it means."""
    group.add_argument(
        "--interference-samples", type=Path, metavar="FILE.csv",
        help=f"fit that to samples, as tiresias interference fit does, in place of the default{more}",
    )  # fmt: skip


def cluster_of(args: argparse.Namespace, of_numbers: Callable[[], ClusterSize]) -> ClusterSize:
    """Return the cluster of --topology, else that of the numbers of nodes and GPUs.

    Raises:
        UsageError: Both are given, an option has no meaning without --topology, or there is no such topology.
    """
    if not args.topology:
        lost = next((name for name in ("servers", "bandwidth") if getattr(args, name) is not None), None)
        if lost:
            raise UsageError(f"--{lost}: has no meaning without --topology; leave it out, or give --topology")
        return of_numbers()
    given = next(
        (name for name in _SIZES if getattr(args, name)), "sockets_per_node" if args.sockets_per_node > 1 else None
    )
    if given:
        raise UsageError(f"--topology: --{given.replace('_', '-')} has no meaning with it; leave it out")
    return network_cluster(args)


def network_cluster(args: argparse.Namespace) -> ClusterSize:
    """Return the cluster of --topology, which is given. Raises UsageError if there is no such topology."""
    options = NetworkOptions(args.bandwidth or PAPER_GBITS, SERVERS[args.servers or "quad"])
    return ClusterSize.of_network(network_of(args.topology, options))


def contention(args: argparse.Namespace) -> SimulatedContention | None:
    """Return how jobs slow each other; None: not at all.

    Raises:
        UsageError: The file of samples is impossible.
    """
    interference = interference_of(args) if args.interference or args.interference_samples else None
    return SimulatedContention(interference) if interference or args.topology else None


def interference_of(args: argparse.Namespace) -> InterferenceModel:
    """Return the model of the samples, or the default. Raises UsageError where the file of samples is impossible."""
    return best_model(*read_samples(args.interference_samples)) if args.interference_samples else DEFAULT_INTERFERENCE


def _bandwidths(text: str) -> tuple[float, ...]:
    found = tuple(map(types.number("--bandwidth"), text.split(",")))
    if len(found) > _MOST_TIERS or not all(0.0 < each <= MOST_GBITS for each in found):
        raise UsageError(
            f"--bandwidth {text[:40]!r}: give 1 to {_MOST_TIERS} numbers of Gbit/s above 0, {MOST_GBITS:g} at most"
        )
    return found
