"""Plan virtual clusters: which cells each tenant needs.

examples:
  tiresias vc suggest --target-wait 1h --percentile 95 --out vcs.toml
  tiresias vc suggest --help
"""

from __future__ import annotations

import argparse

from tiresias.simulator.commands import vc_suggest


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    kinds = parser.add_subparsers(dest="kind", metavar="suggest", required=True)
    suggest = kinds.add_parser(
        "suggest",
        help="the cells that each tenant needs for a target waiting time, from its history",
        description=vc_suggest.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    vc_suggest.configure(suggest)


def run(args: argparse.Namespace) -> int:
    """Run the action; returns the exit code."""
    return vc_suggest.run(args)
