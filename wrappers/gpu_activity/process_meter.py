"""The CPU time of the job's processes on this node: a hint at the use of its GPUs where nothing measures them.

A program that gives work to a GPU uses CPU time for it. A job of which no process runs for long does not use its GPUs. The CPU time
is that of the job's cgroup (version 2), or the sum over the processes of the user that have the job's number in their environment.
Network traffic is not counted: Linux counts that of a node, not of a job.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tiresias.protocol.gpu_activity import PROCESSES

_CGROUPS = Path("/sys/fs/cgroup")
_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessMeter:
    """Measures a job.

    Args:
        job: Slurm's number of its record, SLURM_JOB_ID.
        gpus: Its GPUs on this node.
    """

    source = PROCESSES

    def __init__(self, job: str, gpus: int) -> None:
        self._job, self._gpus = job, max(gpus, 1)
        self._last = time.monotonic(), cpu_seconds(job)

    def use(self) -> list[float]:
        """Return the CPUs in use for each GPU since the last call, 0 to 1: one number for all GPUs."""
        before, now = self._last, (time.monotonic(), cpu_seconds(self._job))
        self._last = now
        seconds = max(now[0] - before[0], 1e-3)
        return [min(max(now[1] - before[1], 0.0) / seconds / self._gpus, 1.0)]


def cpu_seconds(job: str) -> float:
    """Return the CPU seconds of a job on this node so far; those of processes that have ended may be missing."""
    with suppress(OSError, ValueError, StopIteration):
        return of_cgroup(job)
    return sum(_of_processes(f"SLURM_JOB_ID={job}".encode()))


def of_cgroup(job: str, own_cgroup: Path = Path("/proc/self/cgroup"), root: Path = _CGROUPS) -> float:
    """Return the CPU seconds of the cgroup of this process's job, of all its steps on this node.

    Raises OSError, ValueError or StopIteration where the job has none that can be read.
    """
    own = next(line[3:] for line in own_cgroup.read_text().splitlines() if line.startswith("0::"))
    found = re.match(rf"/(.*/)?job_{re.escape(job)}(?=/|$)", own)
    if not found:
        raise ValueError(f"job {job} has no cgroup of version 2")
    usage = dict(line.split() for line in (root / found[0][1:] / "cpu.stat").read_text().splitlines())
    return int(usage.get("usage_usec", "x")) / 1e6


def _of_processes(mark: bytes) -> Iterator[float]:
    """Yield the CPU seconds of each process with this variable, and of its ended children; not of this process."""
    own, user = str(os.getpid()), os.getuid()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and folder.name != own:
            with suppress(OSError, ValueError, IndexError):  # it has ended
                if folder.stat().st_uid == user and mark in (folder / "environ").read_bytes().split(b"\0"):
                    fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                    yield sum(map(int, fields[11:15])) / _TICKS
