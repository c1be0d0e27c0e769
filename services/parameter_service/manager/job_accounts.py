"""The Slurm account of a job that registers: that of its Slurm job, which must belong to the certified user."""

from __future__ import annotations

import re

from tiresias.errors import Unavailable, UsageError
from tiresias.services.parameter_service.manager.fleet_commands import FleetCommands


def account_of(slurm_job: int, uid: int) -> str:
    """Return the account of a running Slurm job of a user. It waits for Slurm: not for a loop.

    Raises:
        UsageError: No Slurm job was named, or not one of this user.
        Unavailable: Slurm does not answer.
    """
    if slurm_job <= 0:
        raise UsageError("per_account: register from within a Slurm job, whose account counts")
    try:
        shown = FleetCommands().run("squeue", "--noheader", f"--jobs={slurm_job}", "--states=RUNNING", "--format=%U|%a")
    except Unavailable as error:
        if "Invalid job id" not in str(error):
            raise
        shown = ""
    rows = [found for line in shown.splitlines() if (found := re.fullmatch(r"(\d+)\|(.*)", line.strip()))]
    if not rows or any(int(row[1]) != uid for row in rows):
        raise UsageError(f"per_account: Slurm job {slurm_job} is no running job of user {uid}")
    return "" if rows[0][2] == "(null)" else rows[0][2]
