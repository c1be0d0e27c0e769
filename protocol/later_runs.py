"""Whether a later run of a job has begun, while processes of an earlier one go on.

This is so until the earlier run's node registers with slurmctld, where Slurm has given that node up, or where slurmctld was killed,
forgot the earlier run's start and started the job again. Both runs have the job's control folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tiresias.protocol import control

_SECONDS = re.compile("[0-9]{1,12}", re.ASCII)


def start_time(env: Mapping[str, str]) -> int:
    """Epoch second at which this run began, as Slurm's record has it; 0 where Slurm does not pass it (22.05)."""
    start = env.get("SLURM_JOB_START_TIME", "")
    return int(start) if _SECONDS.fullmatch(start) else 0


def started_later(report: Mapping[str, object], start: int) -> bool:
    """Return whether a supervisor's report is of a run that started later. `start`: of this run (`start_time`)."""
    return 0 < start < control.integer(report.get("start"))


def has_begun(report: Mapping[str, object], restart: int, start: int) -> bool:
    """Return whether a supervisor's report is of a later run: by the starts, else by the restart counts.

    A killed slurmctld forgets requeues as well: a later run may have the same restart count, or a lower one.

    Args:
        report: The newest supervisor.json.
        restart: Slurm's restart count of this run.
        start: When it began (`start_time`).
    """
    if start > 0 and control.integer(report.get("start")) > 0:
        return started_later(report, start)
    return control.integer(report.get("restart")) > restart


def write_program(folder: Path, content: Mapping[str, object], restart: int, start: int) -> None:
    """Write program.json, unless a later run has begun. `restart`, `start`: as of `has_begun`. Raises OSError."""
    if not has_begun(control.read(folder / control.SUPERVISOR, os.getuid()), restart, start):
        control.write(folder, control.PROGRAM, dict(content))
