"""Publication of a job's remote memory in its control folder, with the rights of the job's owner.

The supervisor of a job of `tsbatch` creates that folder, after the prologs. A job of sbatch has none: it is created for it once no
supervisor is expected any more, and at its end, so that `tiresias explain` has its figures.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control, remote_memory_use
from tiresias.protocol.remote_memory_use import REFUSED, RemoteMemoryUse
from tiresias.services.remote_memory.job_swap import job_cgroup, kernel_calls, swap_request
from tiresias.services.remote_memory.job_swap.bounded_child import in_child
from tiresias.services.remote_memory.job_swap.owner_files import FileOwner, OwnerFiles, owner_of
from tiresias.services.remote_memory.job_swap.swap_settings import SwapSettings

MODULE = "tiresias.services.remote_memory.job_swap"
CREATE_AFTER_S = 120.0  # a job without a control folder by then has no supervisor
LAST_S = 3.0  # the longest wait for the last publication
SLURM_TIMEOUT_S = 10.0
_POLL_S = 1.0
_TASK = re.compile(r"JobId=(\d+) ArrayJobId=(\d+) ArrayTaskId=(\d+) ")


class ReportedJob(NamedTuple):
    """Of what the reports are.

    Attributes:
        job: The job's number, which an array's tasks have as well.
        node: Slurm's name of this node.
        owner: The job's owner.
        requested: Bytes on this node.
        control: Root of the control folders; None: nothing is published.
    """

    job: str
    node: str
    owner: FileOwner
    requested: int
    control: Path | None

    def folder(self) -> Path:
        """Return the job's control folder; asks Slurm for the id as squeue prints it, which a prolog does not have."""
        assert self.control is not None, "as the caller checks"
        return control.job_folder(self.control, self.owner.uid, job_name(self.job, _record(self.job)))


def reported_job(settings: SwapSettings, job: str, environment: Mapping[str, str], requested: int = 0) -> ReportedJob:
    """Return of what the reports are, by the variables of prolog and epilog."""
    return ReportedJob(job, node_of(environment), owner_of(environment), requested, settings.control)


def node_of(environment: Mapping[str, str]) -> str:
    """Return Slurm's name of this node."""
    return environment.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]


def job_name(job: str, record: str) -> str:
    """Return the id of a job as squeue prints it; the number where it is no task of an array.

    Args:
        job: The number.
        record: What `scontrol --oneliner show job` prints.
    """
    for line in record.splitlines():
        found = _TASK.match(line)
        if found and found[1] == job:
            return f"{found[2]}_{found[3]}"
    return job


def publish(folder: Path, use: RemoteMemoryUse, create_for: int | None = None) -> bool:
    """Put a report in place, with the rights that the caller has; return whether that succeeded.

    Args:
        folder: The job's control folder.
        use: The report.
        create_for: The user for whom a missing folder is created, where the site has a root for them; None: it is not.
    """
    try:
        if create_for is not None and not folder.exists() and folder.parent.parent.is_dir():
            control.make(folder, "", create_for)
        remote_memory_use.write(folder, use)
    except OSError:  # a job without a control folder, or one that is away
        return False
    return True


def start_refusal(file: Path, job: str) -> None:
    """Start the process that publishes a refusal once the job's folder exists; the prolog does not wait for it.

    Args:
        file: The node's configuration.
        job: The job.
    """
    with suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", MODULE, "publish", str(file), job],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/",
        )  # fmt: skip


def publish_refusal(settings: SwapSettings, job: str, environment: Mapping[str, str]) -> None:
    """Publish why this node has refused a job's request, and wait for the job's folder. Raises OSError."""
    job_cgroup.leave_job_cgroups()
    reported, use = reported_job(settings, job, environment), refusal(settings, job, environment)
    if use is None or reported.control is None:
        return
    folder = reported.folder()
    kernel_calls.act_for_user(*reported.owner)
    deadline = time.monotonic() + CREATE_AFTER_S
    while refusal(settings, job, environment):  # until the epilog
        if publish(folder, use, reported.owner.uid if time.monotonic() > deadline else None):
            return
        time.sleep(_POLL_S)


def publish_at_end(settings: SwapSettings, job: str, environment: Mapping[str, str]) -> None:
    """Publish a refusal in the epilog, where the process of the prolog has not, as in a job of a few seconds."""
    reported, use = reported_job(settings, job, environment), refusal(settings, job, environment)
    if use is None or reported.control is None:
        return
    folder = reported.folder()

    def work() -> None:
        kernel_calls.act_for_user(*reported.owner)
        publish(folder, use, reported.owner.uid)

    in_child(work, LAST_S)


def refusal(settings: SwapSettings, job: str, environment: Mapping[str, str]) -> RemoteMemoryUse | None:
    """Return the report of a refusal; None where this node has not refused a request of the job."""
    files = OwnerFiles(settings.run, job, owner_of(environment))
    if not swap_request.is_job(job) or not (reason := files.text(REFUSED).strip()):
        return None
    now = time.time()
    return RemoteMemoryUse(node_of(environment), now, now, refused=reason)


def _record(job: str) -> str:
    """Return what scontrol prints of a job; "" without an answer."""
    command = ["scontrol", "--oneliner", "show", "job", job]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SLURM_TIMEOUT_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
