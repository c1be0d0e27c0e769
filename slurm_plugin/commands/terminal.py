"""What the viewing commands share: where the daemon's socket is, and a console that never fails on a character."""

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
from tiresias.slurm_plugin.config import load_option
from tiresias.slurm_plugin.views.table_layout import UNLIMITED
from tiresias.slurm_plugin.views.text import printable

JOB_ID = re.compile(r"[0-9]{1,10}([_+][0-9]{1,10})?")  # squeue(1), JOBID
TASKS = re.compile(r"[0-9]{1,10}_\[[0-9,:-]{1,400}(%[0-9]{1,10})?\]")  # as squeue prints waiting tasks: 123_[1-3,7%2]
ALIKE = "tiresias.alike"  # how characters are replaced that a terminal does not have
_ALIKE = dict(zip("─━│╭╮╰╯·…", "-=|++++.~", strict=True))
_PIPE_LINES = 60  # in a file or a pipe with a width there is no height; enough for a page, whatever the number of jobs


def add_socket_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--socket", type=Path, metavar="PATH", help="default: control.sock in the configured paths.run")


def socket_path(args: argparse.Namespace) -> Path:
    return args.socket or Path(load_option("paths.run", None)) / "control.sock"


def job_id(text: str) -> str:
    """Raises UsageError."""
    if not JOB_ID.fullmatch(text):
        raise UsageError(f"{printable(repr(text), 40)} is no job id: give it as squeue prints it, such as 123 or 123_4")
    return text


def job_or_tasks(text: str) -> str:
    """A job, or some tasks of an array. Raises UsageError."""
    return text if TASKS.fullmatch(text) else job_id(text)


def user_name(uid: int) -> str:
    """The number itself where the user database does not know it. The commands look names up, as that may block."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def moment(text: str) -> float:
    """Of an option's date, in epoch seconds."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no date; write 2026-11-01 or 2026-11-01T08:00") from None


def console() -> Console:
    """On standard output. A terminal in ASCII gets what looks alike in place of frames and bars, and no error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        with contextlib.suppress(ValueError):
            sys.stdout.reconfigure(errors=ALIKE)
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False, width=_asked_width())


def _asked_width() -> int | None:
    """None: the terminal's. Into a file or a pipe lines are as long as their text, unless COLUMNS says otherwise."""
    return None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal() else UNLIMITED


def _alike(error: UnicodeError) -> tuple[str, int]:
    """As many cells as before."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_ALIKE.get(one, "?" * cell_len(one)) for one in lost), error.end


codecs.register_error(ALIKE, _alike)


def height_of(screen: Console) -> int:
    """Lines to fill: the prompt that follows needs one, too."""
    return screen.height - 1 if screen.is_terminal else _PIPE_LINES


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=2))
