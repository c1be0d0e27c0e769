"""Stop a private cluster and remove its files, /shared included.

Examples:
  tiresias sandbox down
  tiresias sandbox down --all
"""

from __future__ import annotations

import argparse

from tiresias.sandbox.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="default", help="default: %(default)s")
    parser.add_argument("--all", action="store_true", help="every cluster of this user")


def run(args: argparse.Namespace) -> int:
    for cluster in Cluster.all() if args.all else [Cluster.find(args.name)]:
        cluster.down()
    return 0
