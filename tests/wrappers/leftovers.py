"""The processes of jobs that a test has started, wherever they are, and their end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LONGEST_S = 30.0  # for a process in the middle of a disk access
PAUSE_S = 0.01


def end(folder: Path, mark: str) -> None:
    """SIGKILL all processes that work in a folder or have a mark, until none is left; a process may start others meanwhile.

    Args:
        folder: Of the jobs. A program that DMTCP has restored shows no environment.
        mark: `NAME=value` in the environment of the jobs' other processes.
    """
    deadline = time.monotonic() + LONGEST_S
    while found := list(pids(folder, mark)):
        assert time.monotonic() < deadline, f"processes of {folder} do not end: {found}"
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


def pids(folder: Path, mark: str) -> Iterator[int]:
    """Yield the ids of the processes, without zombies and this process."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with suppress(OSError):
                if _works_in(path, folder) or os.fsencode(mark) in (path / "environ").read_bytes().split(b"\0"):
                    yield int(path.name)


def _works_in(process: Path, folder: Path) -> bool:
    with suppress(OSError):
        return (process / "cwd").readlink().is_relative_to(folder)
    return False
