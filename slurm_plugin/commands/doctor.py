"""Check this host, Slurm and the configuration, and report what prevents or weakens operation. Nothing is changed.

Run it as the controller's user on the host of slurmctld. Exit code 1 if a finding blocks mode exact.

examples:
  tiresias doctor
  sudo -u tiresias tiresias doctor --config my.toml
  tiresias doctor --json
  srun --nodes=2 --ntasks-per-node=1 tiresias doctor --node     what compute nodes have
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
    failing_node_check,
    federation_check,
    folder_checks,
    host_checks,
    image_tools_check,
    job_swap_check,
    learned_placement_check,
    limit_checks,
    parameter_service_check,
    part_check,
    plugin_checks,
    preemptor_check,
    program_region_check,
    recorder_check,
    rights_check,
    shared_gpu_check,
    slow_node_check,
    topology_checks,
    virtual_cluster_findings,
)
from tiresias.slurm_plugin.state.journal import FILE
from tiresias.slurm_plugin.views.text import printable

_STYLES = {Level.FINE: "green", Level.ADVICE: "cyan", Level.RISK: "yellow", Level.BLOCKS: "bold red"}
_MAX_CELL_CHARACTERS = 200
_MAX_LINE_CHARACTERS = 500


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="default: /etc/tiresias/tiresias.toml")
    parser.add_argument(
        "--json", action="store_true", help='[{"level": ..., "about": ..., "words": ..., "remedy": ...}]'
    )
    parser.add_argument(
        "--node",
        action="store_true",
        help="only what concerns a compute node on which this runs; the configuration is not read",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    found = list(_check_node() if args.node else _check(load_config(args.config, {})))
    found.sort(key=lambda each: -each.level)
    if args.json:
        print_json([{**each._asdict(), "level": each.level.name.lower()} for each in found])
    elif args.node:
        print(
            *(f"{_mark(each)}: {each.about}: {printable(each.words, _MAX_LINE_CHARACTERS)}" for each in found), sep="\n"
        )
    else:
        console().print(_table(found))
    return int(any(each.level is Level.BLOCKS for each in found))


def _check(config: Config) -> Iterator[Finding]:
    slurm_conf = read_settings()
    yield from slurm_conf_checks.findings(slurm_conf)
    yield from host_checks.partitions(config.partitions)
    yield from host_checks.sharing(config.partitions)
    yield from preemptor_check.read(config, slurm_conf)
    backend = open_backend(config.backend)
    try:
        yield host_checks.version(backend)
        yield from part_check.findings(backend, config.placement.part_types)
        yield from topology_checks.read(config, backend)
        yield from shared_gpu_check.read(config.partitions, backend)
        yield from limit_checks.read(backend)
        yield from virtual_cluster_findings.read(config.virtual_clusters, config, backend)
    finally:
        backend.close()
    yield federation_check.finding()
    yield rights_check.finding(slurm_conf)
    yield host_checks.clock()
    yield from folder_checks.findings(config.paths, host_checks.several())
    yield from failing_node_check.findings(config.paths.state / FILE)
    yield from slow_node_check.findings(config.paths.state / FILE)
    yield from learned_placement_check.findings(config.paths.run)
    yield from parameter_service_check.findings(config.service_report, slurm_conf)
    yield recorder_check.finding()
    yield image_tools_check.finding(here_only=False)
    yield from plugin_checks.findings()


def _check_node() -> Iterator[Finding]:
    yield image_tools_check.finding(here_only=True)
    yield job_swap_check.finding()
    yield program_region_check.finding()


def _table(found: list[Finding]) -> Table:
    table = Table(box=None, header_style="bright_black", padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("about", no_wrap=True)
    for title in ("found", "do"):
        table.add_column(title, overflow="fold")
    for each in found:
        mark = Text(_mark(each), _STYLES[each.level])
        table.add_row(mark, *(Text(printable(words, _MAX_CELL_CHARACTERS)) for words in each[1:]))
    return table


def _mark(found: Finding) -> str:
    return "ok" if found.level is Level.FINE else found.level.name.lower()
