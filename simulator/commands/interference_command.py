"""How much jobs on shared nodes slow each other, from measurements.

  tiresias interference measure --out samples.csv    step times beside generators of load, on this machine
  tiresias interference fit samples.csv              a model of processors, memory, PCIe and network, compared with simpler ones
  tiresias interference pairs pairs.csv              all pairs of kinds of jobs from some measured pairs

`tiresias interference ACTION --help` describes an action.
"""

from __future__ import annotations

import argparse

from tiresias.__main__ import run_module

ACTIONS = {
    "measure": "tiresias.profiler.interference.measure_command",
    "fit": "tiresias.simulator.commands.interference_fit",
    "pairs": "tiresias.simulator.commands.interference_pairs",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    parser.add_argument("action", choices=tuple(ACTIONS), metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="the action's own options")


def run(args: argparse.Namespace) -> int:
    """Run the action; returns the exit code."""
    return run_module(f"tiresias interference {args.action}", ACTIONS[args.action], args.rest)
