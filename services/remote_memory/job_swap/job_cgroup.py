"""The swap limits of a job's memory cgroups: the job may use its swap, and Slurm's limits stay as they are otherwise.

Slurm writes the limits of a job's cgroups at the start of each step. This module raises those of swap whenever that has happened.
cgroup v1: memory.memsw.limit_in_bytes (memory and swap together); v2: memory.swap.max.

slurmstepd, which is in the job's cgroups as well, does not swap: a job whose swap fails would not end otherwise. With v1 it is in
the cgroup of the step, and the tasks are in cgroups below; with v2 it has the cgroup `slurm`, whose limit stays as it is.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tiresias.services.remote_memory.job_swap import kernel_calls

PATTERNS = (
    "/sys/fs/cgroup/memory/slurm*/uid_*/job_{job}",  # v1
    "/sys/fs/cgroup/system.slice/*slurmstepd.scope/job_{job}",  # v2
)
UNLIMITED = 1 << 60  # v1 shows a number near 2**63
SWAPPINESS = 60  # of the job: a node that protects other processes has 0 for all
_STEP, _STEP_DAEMON = "step_", "slurm"
POLL_S = 1.0  # a cgroup that appeared without an event is found by then
_CREATE, _MODIFY = 0x100, 0x2
_HIERARCHY_DEPTH = 4  # parts of a path of a hierarchy: sys, fs, cgroup, memory


def raised_memsw(memory: int, memsw: int, swap_bytes: int) -> int | None:
    """Return the new limit of memory and swap together; None where the present one allows the job's swap."""
    if memory >= UNLIMITED or memsw >= memory + swap_bytes:
        return None
    return memory + swap_bytes


def raised_swap_max(present: str, swap_bytes: int) -> int | None:
    """Return the new memory.swap.max; None where the present one allows the job's swap."""
    return None if present == "max" or int(present) >= swap_bytes else swap_bytes


class JobCgroup:
    """The memory cgroups of a job.

    Args:
        patterns: Absolute patterns of its folder; {job} stands for the job's id.
        job: The id.
        swap_bytes: What it may swap.

    Attributes:
        raised: How many limits were raised.
    """

    def __init__(self, patterns: Iterable[str], job: str, swap_bytes: int) -> None:
        self._patterns = [each.format(job=job) for each in patterns]
        self._swap_bytes = swap_bytes
        self._inotify = kernel_calls.inotify(_CREATE | _MODIFY)
        self.raised = 0

    def raise_limits(self) -> None:
        """Raise the limits of all cgroups of the job that exist now."""
        self._watch_parents()
        for folder in self._folders():
            with suppress(OSError, ValueError):  # it has ended
                self._watch(folder)
                self._raise(folder)

    def wait_for_change(self, timeout_s: float = POLL_S) -> None:
        """Wait until a cgroup appears or a limit is written, or until the timeout."""
        if select.select([self._inotify], [], [], timeout_s)[0]:
            with suppress(BlockingIOError):
                os.read(self._inotify, 1 << 16)

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._inotify)

    def _folders(self) -> Iterator[Path]:
        """Yield the job's folder, then those below it: a limit must not exceed that above it."""
        for pattern in self._patterns:
            for folder in Path("/").glob(pattern.lstrip("/")):
                for path, below, _ in os.walk(folder):
                    below.sort()
                    yield Path(path)

    def _watch_parents(self) -> None:
        """Watch what a job's folder will appear in, as far as it exists."""
        for pattern in self._patterns:
            parts = Path(pattern.lstrip("/")).parts
            for depth in range(_HIERARCHY_DEPTH, len(parts)):
                for folder in Path("/").glob(str(Path(*parts[:depth]))):
                    self._watch(folder)

    def _watch(self, folder: Path) -> None:
        with suppress(OSError):
            kernel_calls.watch(self._inotify, _CREATE | _MODIFY, str(folder))

    def _raise(self, folder: Path) -> None:
        if (folder / "memory.memsw.limit_in_bytes").exists():
            memory, memsw = (_number(folder / f"memory.{name}limit_in_bytes") for name in ("", "memsw."))
            self._write(folder / "memory.memsw.limit_in_bytes", raised_memsw(memory, memsw, self._swap_bytes))
            swappiness = 0 if folder.name.startswith(_STEP) else SWAPPINESS
            if _number(folder / "memory.swappiness") in {0, SWAPPINESS} - {swappiness}:
                self._write(folder / "memory.swappiness", swappiness)
        elif (folder / "memory.swap.max").exists() and _STEP_DAEMON not in folder.parts:
            present = (folder / "memory.swap.max").read_text().strip()
            self._write(folder / "memory.swap.max", raised_swap_max(present, self._swap_bytes))

    def _write(self, file: Path, value: int | None) -> None:
        if value is not None:
            file.write_text(str(value))
            self.raised += 1


def _number(file: Path) -> int:
    return int(file.read_text())


def leave_job_cgroups() -> None:
    """Move this process from the cgroups of a job to the root of their hierarchy: with PrologFlags=RunInJob a prolog is in them."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "/job_" in path:
            name = controllers.removeprefix("name=").split(",")[0]
            (Path("/sys/fs/cgroup") / name / "cgroup.procs").write_text(str(os.getpid()))
