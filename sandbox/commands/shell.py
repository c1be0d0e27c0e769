"""Open a shell inside a private cluster.

Example:
  tiresias sandbox shell --user alice
"""

from __future__ import annotations

import argparse
import os

from tiresias.sandbox.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="default", help="default: %(default)s")
    parser.add_argument("--user", default="alice", help="default: %(default)s")


def run(args: argparse.Namespace) -> int:
    terminal = {"TERM": os.environ.get("TERM", "dumb")}
    words = Cluster.find(args.name).enter(["bash", "-i"], user=args.user, env=terminal)
    os.execvp(words[0], words)
