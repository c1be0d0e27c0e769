"""Stop a private cluster and remove its files, /shared included.

Examples:
  tiresias sandbox down
  tiresias sandbox down --all
"""

from __future__ import annotations

import argparse

from tiresias.errors import UsageError
from tiresias.sandbox import paths
from tiresias.sandbox.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="default", help="default: %(default)s")
    parser.add_argument("--all", action="store_true", help="every cluster of this user")


def run(args: argparse.Namespace) -> int:
    names = [folder.name for folder in paths.clusters_folder().glob("[!.]*")] if args.all else [args.name]
    for name in names:
        running = [cluster for cluster in Cluster.all() if cluster.spec.name == name]
        if running:
            running[0].down()
        elif not Cluster.remove_dead(name):
            raise UsageError(f"no cluster {name!r}: `tiresias sandbox status` lists running clusters")
    return 0
