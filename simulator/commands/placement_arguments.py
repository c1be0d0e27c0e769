"""The options that training and evaluating a placement have in common: the cluster, and the workloads."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiresias.errors import UsageError
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.commands import arguments, network_arguments
from tiresias.simulator.contention.simulated_contention import SimulatedContention
from tiresias.simulator.experiments.experiment import read
from tiresias.simulator.placement_workloads import ARRIVALS, POISSON, PlacementWorkload
from tiresias.simulator.trace import Trace

MOST_JOBS = 100_000
_TRAINED_SHARE = 0.9  # of the submissions of a trace; the rest is held back (marl-placement, section VI-A)


class PlacementProblem(NamedTuple):
    """What is trained or evaluated.

    Attributes:
        cluster: The servers and their network.
        workload: The kind of workload.
        arrivals: Its arrivals in words.
        contention: How jobs slow each other.
    """

    cluster: ClusterSize
    workload: PlacementWorkload
    arrivals: str
    contention: SimulatedContention

    @property
    def fingerprint(self) -> str:
        """A hash of the network and of how jobs slow each other on a server."""
        model, network = self.contention.interference, self.cluster.network
        assert model, "the options have one"
        assert network, "--topology is given"
        numbers = [*model.coefficients.tolist(), model.exponent]
        return hashlib.sha256(f"{network.fingerprint} {model.form.name} {numbers}".encode()).hexdigest()[:12]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    default = PlacementWorkload()
    network_arguments.configure_topology(parser.add_argument_group("cluster"))
    group = parser.add_argument_group("workloads: jobs of all models and sizes, equally often")
    group.add_argument(
        "--arrivals", type=types.one_of("--arrivals", ARRIVALS), metavar="HOW",
        help=f"{', '.join(ARRIVALS)} (default: {POISSON})",
    )  # fmt: skip
    group.add_argument(
        "--trace", type=Path, metavar="TRACE",
        help="in place of --arrivals: the gaps between the submissions of a trace, in training the first nine tenths of them, in "
        "evaluation the last tenth",
    )  # fmt: skip
    group.add_argument(
        "--load", type=types.number("--load"), default=default.load, metavar="X",
        help="share of the GPUs asked for (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--jobs", type=types.whole_number("--jobs"), default=default.jobs, metavar="N",
        help="jobs of each workload (default: %(default)s)",
    )  # fmt: skip
    network_arguments.configure_samples(group)


def problem(args: argparse.Namespace, *, held_back: bool) -> PlacementProblem:
    """Return what the options describe.

    Args:
        args: The options.
        held_back: Take the part of a trace that no training takes.

    Raises:
        UsageError: --topology is missing, a trace is given with --arrivals, or something of them is impossible.
    """
    arguments.needed(args.topology, "--topology")
    if args.trace and args.arrivals:
        raise UsageError("--arrivals has no meaning with --trace; leave one of them out")
    if args.jobs > MOST_JOBS:
        raise UsageError(f"--jobs is {args.jobs}: {MOST_JOBS:,} is the most")
    arrivals = _part(args.trace, read(args.trace, None, "auto"), held_back) if args.trace else args.arrivals or POISSON
    workload = PlacementWorkload(args.jobs, arrivals, args.load)
    contention = SimulatedContention(network_arguments.interference_of(args))
    return PlacementProblem(network_arguments.network_cluster(args), workload, _in_words(args, arrivals), contention)


def _part(file: Path, trace: Trace, held_back: bool) -> Trace:
    cut = round(len(trace) * _TRAINED_SHARE)
    if min(cut, len(trace) - cut) < 2:
        raise UsageError(f"{file}: has {len(trace)} jobs, of which a tenth is held back; give a trace of 20 or more")
    return trace.rows(np.arange(cut, len(trace)) if held_back else np.arange(cut))


def _in_words(args: argparse.Namespace, arrivals: str | Trace) -> str:
    """Return the arrivals in words, different for different traces."""
    if isinstance(arrivals, str):
        return arrivals
    return f"{args.trace.name} ({hashlib.sha256(arrivals.submit.tobytes()).hexdigest()[:12]})"
