"""Plan virtual clusters: which cells each tenant needs.

  tiresias vc suggest --target-wait 1h --percentile 95 --out vcs.toml     from accounting, or a trace

`tiresias vc ACTION --help` describes an action.
"""

from __future__ import annotations

import argparse

from tiresias.__main__ import run_module

ACTIONS = {"suggest": "tiresias.simulator.commands.vc_suggest"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    parser.add_argument("action", choices=tuple(ACTIONS), metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="the action's own options")


def run(args: argparse.Namespace) -> int:
    """Run the action; returns the exit code."""
    return run_module(f"tiresias vc {args.action}", ACTIONS[args.action], args.rest)
