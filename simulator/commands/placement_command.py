"""Placement by a trained network: train one in the simulator, and compare it with the other styles.

  tiresias placement train --topology fat_tree:4 --out placement.npz         a network for this topology; needs PyTorch
  tiresias placement evaluate --topology fat_tree:4 --weights placement.npz  on workloads that it was not trained with

`tiresias placement ACTION --help` describes an action.
"""

from __future__ import annotations

import argparse

from tiresias.__main__ import run_module

ACTIONS = {
    "train": "tiresias.simulator.commands.placement_train",
    "evaluate": "tiresias.simulator.commands.placement_evaluate",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    parser.add_argument("action", choices=tuple(ACTIONS), metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="the action's own options")


def run(args: argparse.Namespace) -> int:
    """Run the action; returns the exit code."""
    return run_module(f"tiresias placement {args.action}", ACTIONS[args.action], args.rest)
