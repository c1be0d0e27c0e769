"""The option of commands that place simulated jobs by a trained network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.scheduler.place.learned.weights_file import PlacementWeights, WeightsError, load
from tiresias.scheduler.topology_tree import Topology

_FALLBACK = "jobs are placed by least_interference"


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the option."""
    group.add_argument(
        "--placement-weights", type=Path, metavar="FILE",
        help="learned: the trained network; where it cannot be used for this cluster, jobs are placed by least_interference",
    )  # fmt: skip


def trained(args: argparse.Namespace, topology: Topology) -> PlacementWeights | None:
    """Return the weights of the option; None: there are none for this topology, which a line on standard error states.

    Raises:
        UsageError: The option is given with another style.
    """
    if args.placement != "learned":
        if args.placement_weights:
            raise UsageError("--placement-weights has no meaning without --placement learned; leave it out")
        return None
    if args.placement_weights is None:
        print(f"{_FALLBACK}: --placement learned without --placement-weights FILE", file=sys.stderr)
        return None
    try:
        found = load(args.placement_weights)
        found.check(topology, str(args.placement_weights))
    except WeightsError as error:
        print(f"{_FALLBACK}: {error}", file=sys.stderr)
        return None
    return found
