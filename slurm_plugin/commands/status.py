"""Queues, jobs, nodes and the last decisions, as the running controller sees them. Anyone may look.

examples:
  tiresias status                    one page
  tiresias status --watch            live; ? shows its keys, q or ctrl-C ends it
  tiresias status --watch --admin    with keys that pause, resume and stop; each asks first
  tiresias status --json | jq '.jobs[] | select(.user == "ada")'
  tiresias status --svg status.svg   one frame as a picture
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import cast

from tiresias.errors import TiresiasError, UsageError
from tiresias.slurm_plugin.commands.terminal import (
    add_socket_option,
    console,
    height_of,
    print_json,
    socket_path,
)
from tiresias.slurm_plugin.sockets.control_socket import ask
from tiresias.slurm_plugin.views.picture import as_svg
from tiresias.slurm_plugin.views.published import Status
from tiresias.slurm_plugin.views.status import render_status

PICTURE = (160, 44)  # cells and lines of --svg


def configure(parser: argparse.ArgumentParser) -> None:
    add_socket_option(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--watch", action="store_true", help="live view (on a terminal)")
    parser.add_argument(
        "--admin", action="store_true", help="with --watch: keys that order the controller (root and its own user)"
    )
    how.add_argument("--json", action="store_true", help="the published dictionary, whole")
    how.add_argument("--svg", type=Path, metavar="FILE", help="write one frame as an SVG picture")


def run(args: argparse.Namespace) -> int:
    if args.admin and not args.watch:
        raise UsageError("--admin is for --watch; without it use tiresias pause, resume and stop")
    path, screen = socket_path(args), console()
    if args.watch and screen.is_terminal and not screen.is_dumb_terminal:
        from tiresias.slurm_plugin.commands.watch import watch  # only here: it needs a terminal and its modules

        return watch(path, screen, args.admin)
    status = ask_status(path, brief=not args.json)
    if args.json:
        print_json(status)
    elif args.svg:
        _write_picture(status, args.svg)
    else:
        screen.print(render_status(status, screen.width, height_of(screen), time.time()))
    return 0


def ask_status(path: Path, timeout: float = 5.0, brief: bool = False) -> Status:
    """timeout: seconds. brief: of the jobs that no page shows only what the map needs."""
    return cast(Status, ask(path, {"op": "status", "brief": brief}, timeout))


def _write_picture(status: Status, file: Path) -> None:
    width, height = PICTURE
    picture = as_svg(render_status(status, width, height, time.time()), width, "tiresias status")
    try:
        file.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise TiresiasError(f"{file}: cannot be written: {error.strerror}") from error
