"""The processes of this job on this node, wherever its launchers have put them.

torchrun gives each worker a session of its own, srun's tasks are children of slurmstepd, and a script may daemonize: no process
group holds them all. What they share is the environment that the script started with.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

ROUNDS, PAUSE = 20, 0.01  # a process may fork while it is looked for


def kill_all(marks: Mapping[str, str]) -> int:
    """SIGKILL every process of this user that has all `marks` in its first environment, but not this one; how many there were.

    What cannot die now (in the middle of a disk access) is left to Slurm.
    """
    required = {os.fsencode(f"{name}={value}") for name, value in marks.items()}
    killed: set[int] = set()
    for _ in range(ROUNDS):
        found = [pid for pid in _pids() if _kill(pid, required)]
        if not found:
            break
        killed.update(found)
        time.sleep(PAUSE)
    return len(killed)


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and path.name != str(os.getpid()))


def _kill(pid: int, required: set[bytes]) -> bool:
    with suppress(OSError):
        process = os.pidfd_open(pid)  # from here on the number cannot come to mean another process
        try:
            if required <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                return True
        finally:
            os.close(process)
    return False
