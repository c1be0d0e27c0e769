"""The remote memory of a job that has ended, or that the controller does not schedule: from its control folder.

The controller reads the reports of managed jobs while they run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tiresias.protocol import control, remote_memory_use, site_configuration
from tiresias.slurm_plugin.sockets.shown_remote_memory import shown_use

CLOCKS_S = 60.0  # by which the prologs of one run may begin after each other


def add_memory_use(job: dict[str, Any], root: Path | None = None) -> None:
    """Add `remote_memory_use` to a job of which the controller reports none, where its nodes have left reports.

    Args:
        job: As the controller publishes it; jobs that compete have no `uid`, and are left as they are.
        root: Of the control folders; None: that of the site's configuration.
    """
    if not job.get("remote_memory_use") and "uid" in job and (found := memory_use(job["id"], job["uid"], root)):
        job["remote_memory_use"] = found


def memory_use(job_id: str, uid: int | None = None, root: Path | None = None) -> dict[str, Any] | None:
    """Return what the nodes of the last run of a job have reported; None where they have not.

    Args:
        job_id: As squeue prints it.
        uid: The owner; None: this user.
        root: Of the control folders; None: that of the site's configuration.
    """
    owner = os.getuid() if uid is None else uid
    folder = control.job_folder(root or site_configuration.control_root(), owner, job_id)
    uses = remote_memory_use.read_all(folder, owner)
    newest = max((each.began for each in uses), default=0.0)
    of_run = [each for each in uses if each.began >= newest - CLOCKS_S]
    return shown_use(of_run) if of_run else None
