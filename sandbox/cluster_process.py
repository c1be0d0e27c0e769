"""A process identified by its pid and its start time, so that a reused pid is never mistaken for it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ClusterProcess:
    """One process on this machine.

    Attributes:
        pid: process id
        start_ticks: start time in clock ticks since boot
    """

    pid: int
    start_ticks: int

    @staticmethod
    def of(pid: int) -> ClusterProcess:
        """Return the process that has this pid now."""
        return ClusterProcess(pid, _stat(pid)[1])

    def alive(self) -> bool:
        """Return whether the process runs; a zombie, which its parent has not reaped, counts as dead."""
        state, start = _stat(self.pid)
        return start == self.start_ticks and state not in ("Z", "X", "")

    def kill(self) -> None:
        """Kill the process if it is the same, and reap it if it is a child."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def children(pid: int) -> list[int]:
    """Return the children of a process's first thread, which forks the programs started here."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _stat(pid: int) -> tuple[str, int]:
    """(state, start time in clock ticks since boot); ("", 0) when there is no such process. See proc(5)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    return fields[0], int(fields[19])
