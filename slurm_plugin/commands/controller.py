"""The daemon that ranks, starts and preempts jobs. Runs on slurmctld's host, as a user who may modify other users' jobs.

examples:
  tiresias controller                               serve until SIGTERM, with /etc/tiresias/tiresias.toml
  tiresias controller --mode shadow                 read only: log what would be done
  tiresias controller --once --config my.toml       one cycle, then exit; holds stay
  tiresias controller --keep-holds                  SIGTERM ends it for a restart: the holds stay for the next controller
  tiresias controller --release                     lift the holds that a killed controller left, then exit

SIGHUP and `tiresias reload` make it read its configuration again. A second controller on the same state folder is the
standby, and takes over within two periods of the first one's end.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tiresias.durable.leadership import Leadership
from tiresias.slurm_plugin.backends.select import CALL_DEADLINE, open_backend
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.daemon.cell_check import refuse_impossible_cells
from tiresias.slurm_plugin.daemon.configured import Configured
from tiresias.slurm_plugin.daemon.daemon import Daemon
from tiresias.slurm_plugin.failover.standby import AnotherLeads, leadership_of, leading
from tiresias.slurm_plugin.state.owner import as_owner

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="default: /etc/tiresias/tiresias.toml")
    parser.add_argument("--mode", choices=["shadow", "assist", "exact"], help="instead of the configured one")
    parser.add_argument(
        "--keep-holds",
        action="store_true",
        help="SIGTERM leaves the holds to the next controller; where none starts, `tiresias deadman` lifts them: enable it",
    )
    parser.add_argument("--once", action="store_true", help="one cycle, then exit")
    parser.add_argument("--release", action="store_true", help="lift the controller's holds and exit")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT)
    configured = Configured.read(args.config, {"mode": args.mode} if args.mode else {}, acts=not args.release)

    def lead(configured: Configured, leadership: Leadership) -> Controller:
        return Controller.leading(configured.config, backend, leadership, configured.site, though_stopped=args.release)

    def check(configured: Configured) -> None:
        refuse_impossible_cells(configured.config, backend)

    with closing(open_backend(configured.config.backend, CALL_DEADLINE)) as backend:
        if not args.release:
            check(configured)
        if args.once or args.release:
            return _act_once(args, configured.config, lambda leadership: lead(configured, leadership))
        faulthandler.enable()  # systemd's watchdog ends a hanging process by SIGABRT: the log then contains its stack
        Daemon(configured, leadership_of(configured.config), lead, args.keep_holds, check).serve()
    return 0


def _act_once(args: argparse.Namespace, config: Config, lead: Callable[[Leadership], Controller]) -> int:
    try:
        if args.release and leadership_of(config).has_standby():
            raise AnotherLeads("another controller is the standby")
        with as_owner(config.paths.state), leading(config) as leadership, closing(lead(leadership)) as controller:
            return _release(controller) if args.release else _cycle(controller)
    except AnotherLeads as error:
        if not args.release:
            raise
        print(f"nothing was released: {error}", file=sys.stderr)  # expected after a takeover: no error
        return 0


def _release(controller: Controller) -> int:
    problems = controller.release()
    for problem in problems:
        print(f"tiresias: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _cycle(controller: Controller) -> int:
    controller.cycle()
    return 0
