"""End a pause: jobs may be preempted again. For root and the controller's own user.

examples:
  tiresias resume
"""

from __future__ import annotations

import argparse

from tiresias.errors import Unavailable
from tiresias.slurm_plugin.commands.admin_client import add_config_option, configured, give
from tiresias.slurm_plugin.failover.fail_open import own_journal
from tiresias.slurm_plugin.sockets.admin_requests import RESUME
from tiresias.slurm_plugin.state.switches import resume


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    config, socket = configured(args)
    try:
        print(give(socket, {"op": RESUME}))
    except Unavailable:
        with own_journal(config) as journal:
            print(resume(journal))
        print("no controller runs; the next one will apply it")
    return 0
