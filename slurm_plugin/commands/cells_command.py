"""Show the cells of virtual clusters: what each owns and uses, its free cells, the largest job that it could start now, and the
bindings between its cells and the hardware. For all users.

A cell is a part of the topology, such as a node or a leaf. `free cells` are those that no guaranteed job of the virtual cluster
uses: a job that fits there starts at once, or as soon as opportunistic jobs have been preempted. `beyond` are GPUs that its jobs
use opportunistically. `fragmented` are its nodes with some free GPUs that cannot give all of their GPUs. Equal cells that no job
uses have one line. In a file or a pipe every cell is listed, and lines are not cut.

examples:
  tiresias cells                              one page
  tiresias cells --virtual-cluster prod-a     one virtual cluster, and the hardware that it uses
  tiresias cells --watch                      live; j and k choose a virtual cluster, q or ctrl-C ends it
  tiresias cells --json | jq '.virtual_clusters[] | {name, free, levels}'
  tiresias cells --svg cells.svg              the page as an SVG file
  tiresias cells replay --help                compare recorded decisions with those of this scheduler
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import cast

from tiresias.errors import TiresiasError
from tiresias.protocol.published_cells import Cells
from tiresias.slurm_plugin.commands.terminal import add_socket_option, console, height_of, print_json, socket_path
from tiresias.slurm_plugin.sockets.control_client import ask
from tiresias.slurm_plugin.views.cells_page import chosen, render_cells
from tiresias.slurm_plugin.views.svg_rendering import as_svg

SVG_SIZE = (110, 60)  # cells and lines


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_socket_option(parser)
    parser.add_argument("--virtual-cluster", metavar="NAME", default="", help="only this virtual cluster")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--watch", action="store_true", help="live view (on a terminal)")
    how.add_argument("--json", action="store_true", help="print the controller's answer")
    how.add_argument("--svg", type=Path, metavar="FILE", help="write the page as an SVG file")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    path, screen, only = socket_path(args), console(), args.virtual_cluster
    if args.watch and screen.is_terminal and not screen.is_dumb_terminal:
        from tiresias.slurm_plugin.commands.live_cells import watch  # only here: it needs a terminal and its modules

        return watch(path, screen, only)
    cells = ask_cells(path)
    if args.json:
        print_json({**cells, "virtual_clusters": chosen(cells, only)})
    elif args.svg:
        _write_svg(cells, args.svg, only)
    else:
        screen.print(render_cells(cells, screen.width, height_of(screen), time.time(), only))
    return 0


def ask_cells(path: Path, timeout: float = 10.0) -> Cells:
    """Return the published cells.

    Args:
        path: The control socket.
        timeout: Seconds.

    Raises:
        TiresiasError: No controller answers, or there are no virtual clusters.
    """
    return cast(Cells, ask(path, {"op": "cells"}, timeout))


def _write_svg(cells: Cells, file: Path, only: str) -> None:
    width, height = SVG_SIZE
    document = as_svg(render_cells(cells, width, height, time.time(), only), width, "tiresias cells")
    try:
        file.write_text(document, encoding="utf-8")
    except OSError as error:
        raise TiresiasError(f"{file}: cannot be written: {error.strerror}") from error
