"""The daemon that ranks, starts and preempts jobs. It runs beside slurmctld, as a user who may act on others' jobs.

examples:
  tiresias controller                               serve until SIGTERM, with /etc/tiresias/tiresias.toml
  tiresias controller --mode shadow                 read only: log what would be done
  tiresias controller --once --config my.toml       one cycle, then exit; holds stay
  tiresias controller --release                     lift the holds that a killed controller left, then exit
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.backends.select import open_backend
from tiresias.slurm_plugin.config import Config, load_config
from tiresias.slurm_plugin.daemon import Controller, Daemon
from tiresias.slurm_plugin.journal import Journal
from tiresias.slurm_plugin.site import Site, read_site

CALL_DEADLINE = 20.0  # seconds for one call to Slurm: twice its MessageTimeout


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="default: /etc/tiresias/tiresias.toml")
    parser.add_argument("--mode", choices=["shadow", "exact"], help="instead of the configured one")
    parser.add_argument("--once", action="store_true", help="one cycle, then exit")
    parser.add_argument("--release", action="store_true", help="lift our holds and exit")


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    config = load_config(args.config, {"mode": args.mode} if args.mode else {})
    site = _site(config)
    journal = Journal(Path(config.paths.state))
    try:
        backend = open_backend(config.backend, CALL_DEADLINE)
        try:
            return _run(args, config, site, Controller(config, backend, journal, site))
        finally:
            backend.close()
    finally:
        journal.close()


def _run(args: argparse.Namespace, config: Config, site: Site, controller: Controller) -> int:
    if args.release:
        problems = controller.release()
        for problem in problems:
            print(f"tiresias: {problem}", file=sys.stderr)
        return 1 if problems else 0
    if args.once:
        controller.cycle()
        return 0
    Daemon(config, controller, site).serve()
    return 0


def _site(config: Config) -> Site:
    site = read_site()
    if unknown := set(config.partitions) - site.partitions:
        raise TiresiasError(
            f"partition {min(unknown)} is not in slurm.conf: set partitions to some of {', '.join(sorted(site.partitions))}"
        )
    for alarm in site.alarms:
        logging.getLogger("tiresias").warning("%s", alarm)
    return site
