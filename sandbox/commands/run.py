"""Run a command inside a private cluster; its output, input and exit code are the command's own.

Examples:
  tiresias sandbox run -- sinfo
  tiresias sandbox run --user alice -- sbatch --gres=gpu:1 --wrap 'sleep 60'
"""

from __future__ import annotations

import argparse
import os

from tiresias.errors import UsageError
from tiresias.sandbox.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="default", help="default: %(default)s")
    parser.add_argument("--user", default="root", help="alice, bob, tiresias, slurm or root (default: %(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("nothing to run: `tiresias sandbox run -- COMMAND`")
    words = Cluster.find(args.name).enter(command, user=args.user)
    os.execvp(words[0], words)
