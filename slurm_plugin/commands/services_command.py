"""Show the parameter service: its aggregators, and how much its jobs lose by sharing them. For all users.

Users see their own jobs by name and the others in the sums only; root, the service account and the group `report_group` see all.
`load` is the share of its cycle for which an aggregator works. `alone` and `measured` are the seconds of an iteration with servers
of its own and with the service; a loss that is not measured yet is the expected one. In a file or a pipe every row is listed.

examples:
  tiresias services             one page
  tiresias services --watch     live; q or ctrl-C ends it
  tiresias services --json | jq '.report.totals'
  tiresias services --svg services.svg
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError
from tiresias.slurm_plugin.commands.terminal import console, height_of, print_json, user_name
from tiresias.slurm_plugin.config import load_option
from tiresias.slurm_plugin.service_report_files import ServiceView, check_age, read_service
from tiresias.slurm_plugin.views.services_page import render_services

SVG_SIZE = (120, 40)  # cells and lines


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--report", type=Path, metavar="FOLDER", help="default: the key service_report of tiresias.toml"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--watch", action="store_true", help="live view (on a terminal)")
    how.add_argument("--json", action="store_true", help='print {"report": ..., "jobs": [...], "sees_all": ...}')
    how.add_argument("--svg", type=Path, metavar="FILE", help="write the page as an SVG file")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    folder, screen = args.report or configured_folder(), console()
    if args.watch and screen.is_terminal and not screen.is_dumb_terminal:
        from tiresias.slurm_plugin.commands.live_services import watch  # only here: it needs a terminal and its modules

        return watch(folder, screen)
    view = ask_service(folder)
    if args.json:
        print_json(view._asdict())
    elif args.svg:
        _write_svg(view, args.svg)
    else:
        screen.print(render_services(view, screen.width, height_of(screen), time.time(), user_name))
    return 0


def configured_folder() -> Path:
    """Return the folder of the report. Raises UsageError where no service is configured."""
    if not (found := load_option("service_report", None)):
        raise UsageError('no parameter service is configured: set service_report = "FOLDER" in tiresias.toml')
    return Path(found)


def ask_service(folder: Path) -> ServiceView:
    """Return what this user may see of a recent report. Raises TiresiasError."""
    view = read_service(folder, os.geteuid())
    check_age(view.report, time.time())
    return view


def _write_svg(view: ServiceView, file: Path) -> None:
    from tiresias.slurm_plugin.views.svg_rendering import as_svg

    width, height = SVG_SIZE
    document = as_svg(render_services(view, width, height, time.time(), user_name), width, "tiresias services")
    try:
        file.write_text(document, encoding="utf-8")
    except OSError as error:
        raise TiresiasError(f"{file}: cannot be written: {error.strerror}") from error
