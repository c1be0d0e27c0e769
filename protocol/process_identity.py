"""Identities of processes across hosts and reused process ids, as they stand in file names: HOST-PID-START.

START is the process's start time in clock ticks since boot: two processes of one host with the same id differ in it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

NAME = re.compile(r"(?P<host>.+)-(?P<pid>[0-9]{1,10})-(?P<ticks>[0-9]{1,20})", re.ASCII)


def own_name() -> str:
    """Return HOST-PID-START of this process."""
    return f"{os.uname().nodename}-{os.getpid()}-{start_ticks(os.getpid())}"


def start_ticks(pid: int) -> int:
    """When `pid` started, in clock ticks since boot (proc(5), field 22); -1: it has ended. Distinguishes a reused pid."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return (
            -1 if fields[0] in "ZX" else int(fields[19])
        )  # a zombie has ended, whether or not its parent has waited for it
    except (OSError, ValueError, IndexError):
        return -1
