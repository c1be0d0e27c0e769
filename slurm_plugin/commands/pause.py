"""Make no further preemptions until `tiresias resume`. Jobs still start on free GPUs, in the policy's order, and a
preemption in progress is completed. The pause outlasts restarts of the controller. For root and the controller's own user.

examples:
  tiresias pause --reason "maintenance of the file system"
  tiresias status                      shows the pause, its begin and its reason
"""

from __future__ import annotations

import argparse
import time

from tiresias.errors import Unavailable
from tiresias.slurm_plugin.commands.admin_client import add_config_option, configured, give
from tiresias.slurm_plugin.failover.fail_open import own_journal
from tiresias.slurm_plugin.sockets.admin_requests import PAUSE, clean
from tiresias.slurm_plugin.state.switches import pause


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--reason", default="", metavar="TEXT", help="shown in status and explain")
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    config, socket = configured(args)
    try:
        print(give(socket, {"op": PAUSE, "reason": args.reason}))
    except Unavailable:
        with own_journal(config) as journal:
            print(pause(journal, time.time(), "root", clean(args.reason)))
        print("no controller runs; the next one will apply it")
    return 0
