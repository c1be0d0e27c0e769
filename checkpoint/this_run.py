"""The run of a job that a process belongs to, by the environment that the job's supervisor set up."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import environment, later_runs


class ThisRun(NamedTuple):
    """The run of a process.

    Attributes:
        control: The job's control folder; None: the job is not managed.
        restart: Slurm's restart count.
        submission: The number of the job's submission, which its control folder carries.
        start: Epoch second at which it began by Slurm's record, 0: not known.
    """

    control: Path | None
    restart: int
    submission: str
    start: int = 0

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> ThisRun:
        """Return the run of a process with that environment."""
        restart = env.get(environment.RESTART, "0")
        return cls(
            Path(env[environment.CONTROL]) if is_this_jobs(env, environment.CONTROL) else None,
            int(restart) if re.fullmatch("[0-9]{1,9}", restart) else 0,
            env.get(environment.SUBMISSION, ""),
            later_runs.start_time(env),
        )


def is_this_jobs(env: Mapping[str, str], name: str) -> bool:
    """Whether the variable names a folder, and did not come along from another job, as in a job submitted from within a job."""
    job = env.get("SLURM_JOB_ID")
    if env.get("SLURM_ARRAY_JOB_ID"):
        job = f"{env['SLURM_ARRAY_JOB_ID']}_{env.get('SLURM_ARRAY_TASK_ID')}"
    folder = env.get(name, "")
    return bool(folder) and (job is None or Path(folder).name in (job, f"{job}-{os.getuid()}"))
