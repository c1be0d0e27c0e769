"""What the viewing commands share: where the daemon's socket is, and a console that never fails on a character."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from tiresias.slurm_plugin.config import load_option

JOB_ID = re.compile(r"[0-9]{1,10}([_+][0-9]{1,10})?")  # squeue(1), JOBID
_PIPE_LINES = 60  # into a file or a pipe there is no height; enough for a page, whatever the number of jobs


def add_socket_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--socket", type=Path, metavar="PATH", help="default: control.sock in the configured paths.run")


def socket_path(args: argparse.Namespace) -> Path:
    return args.socket or Path(load_option("paths.run", None)) / "control.sock"


def console() -> Console:
    """On standard output. A terminal in Latin-1 gets question marks in place of frames, not an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        with contextlib.suppress(ValueError):
            sys.stdout.reconfigure(errors="replace")
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False)


def height_of(screen: Console) -> int:
    """Lines to fill: the prompt that follows needs one, too."""
    return screen.height - 1 if screen.is_terminal else _PIPE_LINES


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=2))
