"""The processes of this job on this node that the signal of a self-saving program (self_saving.py) is for.

A process that does not handle the signal would die of it, and so would a launcher: torchrun kills its workers 30 s after a SIGTERM,
srun at once. A forked worker of a data loader inherits its parent's handler, but saves nothing. The signal is therefore sent to the
topmost processes that handle it, below the launchers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol.process_identity import start_ticks

# A launcher gives each process that it starts one of these; it has none of them itself.
RANK_VARIABLES = frozenset({b"LOCAL_RANK", b"OMPI_COMM_WORLD_RANK", b"PMI_RANK"})
SRUN = "srun"
IN_STEP = b"SLURM_STEP_NUM_TASKS"  # srun sets it; SLURM_STEP_ID is in a batch script's environment too (26.05)


class JobProcess(NamedTuple):
    """A process of the job.

    Attributes:
        ticks: Start time (proc(5)).
        name: Name of the executable.
        handles: It has a handler for the signal.
        is_rank: A launcher started it.
        in_step: srun started it.
    """

    pid: int
    ticks: int
    parent: int
    name: str
    handles: bool
    is_rank: bool = False
    in_step: bool = False


def of_job(marks: Mapping[str, str], number: int) -> list[JobProcess]:
    """This user's processes on this node that have all `marks` in their first environment, but this one."""
    required = {os.fsencode(f"{name}={value}") for name, value in marks.items()}
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and path.name != str(os.getpid()))
    return [found for pid in pids if (found := _read(pid, required, number))]


def choose(processes: Collection[JobProcess]) -> list[JobProcess]:
    """Return the processes that the signal is sent to. Pure."""
    by_pid = {process.pid: process for process in processes}
    launchers = {pid for process in processes if process.is_rank for pid in _ranks_above(process, by_pid)}
    able = {
        process.pid
        for process in processes
        if process.handles and process.name != SRUN and process.pid not in launchers
    }
    return [by_pid[pid] for pid in sorted(able) if able.isdisjoint(_above(by_pid[pid], by_pid))]


def is_alive(process: JobProcess) -> bool:
    """Whether the process still runs; a reused pid does not count."""
    return start_ticks(process.pid) == process.ticks


def _ranks_above(process: JobProcess, by_pid: Mapping[int, JobProcess]) -> Iterator[int]:
    return (pid for pid in _above(process, by_pid) if not by_pid[pid].is_rank)


def _above(process: JobProcess, by_pid: Mapping[int, JobProcess]) -> Iterator[int]:
    """Its ancestors, nearest first, as far as they are of the job."""
    seen = {process.pid}
    while (parent := process.parent) in by_pid and parent not in seen:
        seen.add(parent)
        process = by_pid[parent]
        yield parent


def _read(pid: int, required: set[bytes], number: int) -> JobProcess | None:
    """None: it is not one of the job's, or has ended meanwhile."""
    with suppress(OSError, ValueError, IndexError):
        folder = Path(f"/proc/{pid}")
        variables = set((folder / "environ").read_bytes().split(b"\0"))
        if required <= variables:
            names = {variable.partition(b"=")[0] for variable in variables}
            status = (folder / "status").read_text(encoding="utf-8", errors="replace")
            return JobProcess(
                pid,
                start_ticks(pid),
                int(_field(status, "PPid")),
                _field(status, "Name"),
                _handles(status, number),
                bool(names & RANK_VARIABLES),
                IN_STEP in names,
            )
    return None


def _handles(status: str, number: int) -> bool:
    return bool(int(_field(status, "SigCgt"), 16) >> (number - 1) & 1)


def _field(status: str, name: str) -> str:
    found = re.search(rf"^{name}:\s*(\S+)", status, re.MULTILINE)
    if not found:
        raise ValueError(name)
    return found[1]
