"""Make the running controller read its configuration again: the file that it was started with, and the conf.d next to it. No job
is held or released for it, except in partitions that become managed or unmanaged. An invalid configuration, and one that
changes paths or the back end, is refused in one line, and the old one stays in force. The changes are printed, logged and
journaled. SIGHUP does the same. For root and the controller's own user.

examples:
  tiresias check-config
  tiresias reload
  systemctl reload tiresias-controller
"""

from __future__ import annotations

import argparse

from tiresias.errors import Unavailable
from tiresias.slurm_plugin.commands.admin_client import add_config_option, configured, give
from tiresias.slurm_plugin.sockets.admin_requests import RELOAD


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    _, socket = configured(args)
    try:
        print(give(socket, {"op": RELOAD}))
    except Unavailable as error:
        raise Unavailable(f"{error}; where paths.run was changed, restart the controller") from None
    return 0
