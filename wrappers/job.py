"""The supervisor's view of its job: id, run, folders. Everything comes from the environment set by Slurm and tsbatch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control, environment, versions
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import elastic, job_folders


class Job(NamedTuple):
    """One run of a job.

    Attributes:
        id: As squeue's %i prints it.
        restart: Slurm's restart count of this run.
        control, checkpoints: Folders of this job, None where they are unavailable.
        submission: The number that tsbatch gave to the submission; the folders carry it.
    """

    id: str
    restart: int
    run_id: str
    control: Path | None
    checkpoints: Path | None
    signal_name: str
    submission: str = ""

    def child_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the user's environment with this job's TIRESIAS_* variables; those of another job are removed.

        The choices of tsbatch's options are this job's alone: jobs that the script submits must not inherit them.
        """
        own = {
            environment.CONTROL: self.control,
            environment.CHECKPOINT_DIR: self.checkpoints,
            environment.RESTART: self.restart,
            environment.SIGNAL: self.signal_name,
            environment.RUN_ID: self.run_id,
        }
        chosen = {environment.OPPORTUNISTIC, environment.ELASTIC, environment.SERVER_COUNTS, environment.REMOTE_MEMORY}
        of_this_job = {*own, *chosen}
        kept = {name: value for name, value in elastic.run_environment(env).items() if name not in of_this_job}
        return kept | {name: str(value) for name, value in own.items() if value is not None}


def job_id(env: Mapping[str, str]) -> str:
    """As squeue's %i prints it: 123, or 123_4 for an array task."""
    array, task = env.get("SLURM_ARRAY_JOB_ID"), env.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else env.get("SLURM_JOB_ID", "")


def from_env(env: Mapping[str, str]) -> Job:
    """Find or create the job's folders. An unavailable one is None, and the log states the consequence."""
    name, restart = job_id(env), _count(env.get("SLURM_RESTART_COUNT", "0"))
    owner = job_folders.Owner(name, env.get(environment.SUBMISSION, ""), restart)
    folder = _unless_refused(job_folders.control_folder(env.get(environment.CONTROL_ROOT, ""), owner), restart)
    return Job(
        id=name,
        restart=restart,
        run_id=_run_id(folder, name, restart, env),
        control=folder,
        checkpoints=job_folders.checkpoint_folder(env.get(environment.CHECKPOINT_ROOT, ""), owner),
        signal_name=env.get(environment.SIGNAL) or "USR2",
        submission=owner.submission,
    )


def _unless_refused(folder: Path | None, restart: int) -> Path | None:
    """Return `folder`; None without a protocol version in common with the controller, which supervisor.json then states."""
    spoken = control.of_controller(folder.parent.parent) if folder else versions.OWN
    words = versions.refusal("the controller", spoken, "slurm-tiresias where the job was submitted")
    if folder is None or not words:
        return folder
    log_line(f"{words}. This job will not be preempted")
    with suppress(OSError):
        control.write(folder, control.SUPERVISOR, {"restart": restart, versions.KEY: versions.OWN})
    return None


def _run_id(folder: Path | None, name: str, restart: int, env: Mapping[str, str]) -> str:
    """Made in the first run, with its moment because ids are reused; later runs find it in supervisor.json."""
    before = control.read(folder / control.SUPERVISOR, os.getuid()).get("run_id") if folder and restart else None
    if isinstance(before, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,120}", before):
        return before
    cluster = re.sub(r"[^A-Za-z0-9.-]", "_", env.get("SLURM_CLUSTER_NAME", "slurm"))
    moment = env.get("SLURM_JOB_START_TIME", "") if folder else ""
    return "-".join(filter(None, [cluster, name, moment if moment.isdigit() else ""]))


def _count(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else 0
