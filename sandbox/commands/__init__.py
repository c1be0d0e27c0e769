"""A private, real Slurm cluster on this machine.

  tiresias sandbox up --nodes 15 --gpus-per-node 4       start it (builds missing parts, once)
  tiresias sandbox run --user alice -- sbatch job.sh     run a command in it
  tiresias sandbox shell                                 open a shell in it
  tiresias sandbox status                                list running clusters
  tiresias sandbox replay trace.csv --policy las         run a trace as real jobs
  tiresias sandbox demo                                  two users compete, live
  tiresias sandbox down                                  stop it and remove its files

`tiresias sandbox ACTION --help` describes an action.
"""

from __future__ import annotations

import argparse

from tiresias.__main__ import run_module

ACTIONS = {
    "up": "tiresias.sandbox.commands.up",
    "down": "tiresias.sandbox.commands.down",
    "status": "tiresias.sandbox.commands.status",
    "run": "tiresias.sandbox.commands.run",
    "shell": "tiresias.sandbox.commands.shell",
    "replay": "tiresias.sandbox.commands.replay",
    "demo": "tiresias.sandbox.commands.demo",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(ACTIONS), metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="the action's own options")


def run(args: argparse.Namespace) -> int:
    return run_module(f"tiresias sandbox {args.action}", ACTIONS[args.action], args.rest)
