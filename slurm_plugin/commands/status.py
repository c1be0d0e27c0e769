"""Show queues, jobs, nodes and the newest decisions of the running controller. For all users.

In a file or a pipe every job is listed, and lines are not wrapped.

examples:
  tiresias status                    one page
  tiresias status --me               only your jobs, including held jobs and jobs that wait for a dependency
  tiresias status --user ada --watch
  tiresias status --watch            live; ? shows its keys, q or ctrl-C ends it
  tiresias status --watch --admin    with keys that pause, resume and stop; each asks for confirmation
  tiresias status --json | jq '.jobs[] | select(.user == "ada")'
  tiresias status --svg status.svg   one frame as an SVG file
  tiresias status --clusters --me    a line for each configured cluster, and your jobs on all of them
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from rich.console import RenderableType

from tiresias.errors import TiresiasError, UsageError
from tiresias.slurm_plugin.commands.terminal import (
    add_socket_option,
    console,
    height_of,
    print_json,
    socket_path,
    user_name,
)
from tiresias.slurm_plugin.sockets.published_status import ask_responsive, ask_screen
from tiresias.slurm_plugin.views.status import render_status
from tiresias.slurm_plugin.views.table_layout import UNLIMITED
from tiresias.slurm_plugin.views.user_filter import listing_of, of_user, with_decisions_of

SVG_SIZE = (160, 44)  # cells and lines


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_socket_option(parser)
    users = parser.add_mutually_exclusive_group()
    users.add_argument(
        "--user", metavar="NAME", help="only jobs of this user, a name or a number, and decisions on them"
    )
    users.add_argument("--me", action="store_true", help="only your own jobs")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--watch", action="store_true", help="live view (on a terminal)")
    parser.add_argument(
        "--admin",
        action="store_true",
        help="with --watch: keys that pause, resume and stop the controller (root and its own user)",
    )
    how.add_argument("--json", action="store_true", help="print the published dictionary")
    how.add_argument("--svg", type=Path, metavar="FILE", help="write one frame as an SVG file")
    parser.add_argument(
        "--clusters",
        action="store_true",
        help="one line for each cluster of the key clusters of tiresias.toml; with --user or --me the jobs on each",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if args.admin and not args.watch:
        raise UsageError("--admin is for --watch; without it use tiresias pause, resume and stop")
    path, screen, user = socket_path(args), console(), _user(args)
    if args.clusters:
        if args.watch or args.svg or args.socket:
            raise UsageError("--clusters asks the configured sockets once: leave --watch, --svg and --socket out")
        from tiresias.slurm_plugin.commands.cluster_views import show_clusters  # only here: a page needs no threads

        return show_clusters(screen, user, args.json)
    if args.watch and screen.is_terminal and not screen.is_dumb_terminal:
        from tiresias.slurm_plugin.commands.live_view import watch  # only here: it needs a terminal and its modules

        return watch(path, screen, args.admin, user)
    if args.json:
        status = ask_responsive(path)
        print_json(of_user(status, user) if user else status)
    elif args.svg:
        _write_svg(path, args.svg, user)
    else:
        screen.print(_page(path, user, screen.width, height_of(screen)))
    return 0


def _user(args: argparse.Namespace) -> str:
    """The name of the user to show; "" for all users."""
    if args.me:
        return user_name(os.getuid())
    return user_name(int(args.user)) if args.user and args.user.isdecimal() else args.user or ""


def _page(path: Path, user: str, width: int, height: int) -> RenderableType:
    """Ask for what the page shows; without a limit of the width (a file or a pipe) for everything."""
    if width < UNLIMITED:
        status = ask_screen(path, height, width, user)
        status = status if "rest" in status else with_decisions_of(status, user)  # of an older controller
        return render_status(status, width, height, time.time(), listing_of(status, user))
    status = ask_responsive(path)
    return render_status(with_decisions_of(status, user), width, height, time.time(), listing_of(status, user))


def _write_svg(path: Path, file: Path, user: str) -> None:
    from tiresias.slurm_plugin.views.svg_rendering import as_svg

    width, height = SVG_SIZE
    document = as_svg(_page(path, user, width, height), width, "tiresias status")
    try:
        file.write_text(document, encoding="utf-8")
    except OSError as error:
        raise TiresiasError(f"{file}: cannot be written: {error.strerror}") from error
