"""Check this host, Slurm and the configuration, and report what prevents or weakens operation. Nothing is changed.

Run it as the controller's user on the host of slurmctld. Exit code 1 if a finding blocks mode exact.

examples:
  tiresias doctor
  sudo -u tiresias tiresias doctor --config my.toml
  tiresias doctor --json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tiresias.slurm_plugin.backends.select import open_backend
from tiresias.slurm_plugin.cluster import slurm_conf_checks
from tiresias.slurm_plugin.cluster.finding import Finding, Level
from tiresias.slurm_plugin.cluster.site import read_settings
from tiresias.slurm_plugin.commands.terminal import console, print_json
from tiresias.slurm_plugin.config import Config, load_config
from tiresias.slurm_plugin.doctor import (
    folder_checks,
    host_checks,
    limit_checks,
    part_check,
    plugin_checks,
    recorder_check,
    rights_check,
    topology_checks,
    virtual_cluster_findings,
)
from tiresias.slurm_plugin.views.text import printable

_STYLES = {Level.FINE: "green", Level.ADVICE: "cyan", Level.RISK: "yellow", Level.BLOCKS: "bold red"}
_MAX_CELL_CHARACTERS = 200


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="default: /etc/tiresias/tiresias.toml")
    parser.add_argument(
        "--json", action="store_true", help='[{"level": ..., "about": ..., "words": ..., "remedy": ...}]'
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    found = sorted(_check(load_config(args.config, {})), key=lambda each: -each.level)
    if args.json:
        print_json([{**each._asdict(), "level": each.level.name.lower()} for each in found])
    else:
        console().print(_table(found))
    return int(any(each.level is Level.BLOCKS for each in found))


def _check(config: Config) -> Iterator[Finding]:
    slurm_conf = read_settings()
    yield from slurm_conf_checks.findings(slurm_conf)
    yield from host_checks.partitions(config.partitions)
    yield from host_checks.sharing(config.partitions)
    backend = open_backend(config.backend)
    try:
        yield host_checks.version(backend)
        yield from part_check.findings(backend, config.placement.part_types)
        yield from topology_checks.read(config, backend)
        yield from limit_checks.read(backend)
        yield from virtual_cluster_findings.read(config.virtual_clusters, config, backend)
    finally:
        backend.close()
    yield rights_check.finding(slurm_conf)
    yield host_checks.clock()
    yield from folder_checks.findings(config.paths, host_checks.several())
    yield recorder_check.finding()
    yield from plugin_checks.findings()


def _table(found: list[Finding]) -> Table:
    table = Table(box=None, header_style="bright_black", padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("about", no_wrap=True)
    for title in ("found", "do"):
        table.add_column(title, overflow="fold")
    for each in found:
        mark = Text("ok" if each.level is Level.FINE else each.level.name.lower(), _STYLES[each.level])
        table.add_row(mark, *(Text(printable(words, _MAX_CELL_CHARACTERS)) for words in each[1:]))
    return table
