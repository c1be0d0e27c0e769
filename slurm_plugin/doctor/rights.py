"""Whether this user may hold, requeue and release others' jobs; asked of Slurm, nothing is tried."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

from tiresias.slurm_plugin.doctor.finding import Finding, Level, fine
from tiresias.slurm_plugin.doctor.slurm import output

ENOUGH = ("Operator", "Administrator")


def finding(config: Mapping[str, str]) -> Finding:
    """Of the user who runs this: run it as the controller's user."""
    name = pwd.getpwuid(os.geteuid()).pw_name
    slurm_user = config.get("SlurmUser", "").partition("(")[0]
    if os.geteuid() == 0 or name == slurm_user:
        return Finding(
            Level.ADVICE, "rights", f"{name} may do everything in Slurm; the controller needs less",
            "a user of its own with AdminLevel=Operator (and run the doctor as that user)",
        )  # fmt: skip
    level = output("sacctmgr", "--noheader", "--parsable2", "show", "user", name, "format=AdminLevel").strip()
    if level in ENOUGH:
        return fine("rights", f"{name} is {level}")
    remedy = f"sacctmgr add user {name} account=root adminlevel=operator"
    return Finding(
        Level.BLOCKS, "rights", f"{name} may not act on others' jobs (AdminLevel {level or 'unknown'})", remedy
    )
