"""Parts shared by the viewing commands: the path of the daemon's socket, and a console that accepts any character."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import json
import os
import pwd
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console

from tiresias.errors import UsageError
from tiresias.slurm_plugin.commands.run_folder import run_folder
from tiresias.slurm_plugin.views.table_layout import UNLIMITED
from tiresias.slurm_plugin.views.text import printable

JOB_ID = re.compile(r"[0-9]{1,10}([_+][0-9]{1,10})?")  # squeue(1), JOBID
TASKS = re.compile(r"[0-9]{1,10}_\[[0-9,:-]{1,400}(%[0-9]{1,10})?\]")  # as squeue prints waiting tasks: 123_[1-3,7%2]
ASCII_FALLBACK = "tiresias.ascii"  # error handler that replaces characters missing in the terminal's encoding
_FALLBACKS = dict(zip("─━│╭╮╰╯·…", "-=|++++.~", strict=True))
_PIPE_LINES = 60  # height of a page in a file or a pipe with a width, whatever the number of jobs


def add_socket_option(parser: argparse.ArgumentParser) -> None:
    """Add --socket."""
    parser.add_argument("--socket", type=Path, metavar="PATH", help="default: control.sock in the configured paths.run")


def socket_path(args: argparse.Namespace) -> Path:
    """Return the path of the control socket."""
    return args.socket or run_folder() / "control.sock"


def job_id(text: str) -> str:
    """Check a job id and return it.

    Raises:
        UsageError: the text is not a job id.
    """
    if not JOB_ID.fullmatch(text):
        raise UsageError(
            f"{printable(repr(text), 40)} is not a job id: give it as squeue prints it, such as 123 or 123_4"
        )
    return text


def job_or_tasks(text: str) -> str:
    """Check the id of a job or of some tasks of an array and return it.

    Raises:
        UsageError: the text is neither.
    """
    return text if TASKS.fullmatch(text) else job_id(text)


def user_name(uid: int) -> str:
    """Return the user's name, or the number if the user database lacks it.

    The database may block, so only commands query it.
    """
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def moment(text: str) -> float:
    """Return the epoch seconds of an option's date."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a date; write 2026-11-01 or 2026-11-01T08:00") from None


def console() -> Console:
    """Return a console on standard output.

    A terminal in ASCII gets similar characters in place of frames and bars.
    """
    if not os.environ.get("COLUMNS", "").strip("0"):
        os.environ.pop("COLUMNS", None)  # 0, as some consoles have it, is no width
    if isinstance(sys.stdout, io.TextIOWrapper):
        with contextlib.suppress(ValueError):
            sys.stdout.reconfigure(errors=ASCII_FALLBACK)
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False, width=_asked_width())


def _asked_width() -> int | None:
    """Return the configured width, None for the terminal's.

    In a file or a pipe, lines are as long as their text unless COLUMNS is set.
    """
    return None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal() else UNLIMITED


def _fall_back(error: UnicodeError) -> tuple[str, int]:
    """Replace characters by as many cells of ASCII."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_FALLBACKS.get(one, "?" * cell_len(one)) for one in lost), error.end


codecs.register_error(ASCII_FALLBACK, _fall_back)


def height_of(screen: Console) -> int:
    """Return the lines to fill; the prompt that follows needs one, too."""
    return screen.height - 1 if screen.is_terminal else _PIPE_LINES


def print_json(content: Any) -> None:
    """Print `content` as JSON."""
    print(json.dumps(content, indent=2))
