"""Whether this user may hold, requeue and release others' jobs; asked of Slurm, nothing is tried."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.cluster.rights import read_rights, user_name


def finding(config: Mapping[str, str]) -> Finding:
    """Of the user who runs this: run it as the controller's user."""
    uid, rights = os.geteuid(), read_rights(config, deadline=20.0)
    name = user_name(uid)
    if uid in rights.masters:
        return Finding(
            Level.ADVICE, "rights", f"{name} may do everything in Slurm; the controller needs less",
            "a user of its own with AdminLevel=Operator (and run the doctor as that user)",
        )  # fmt: skip
    if uid in rights.operators:
        return fine("rights", f"{name} may act on others' jobs")
    problem = rights.unknown or f"{name} may not act on others' jobs"
    return Finding(Level.BLOCKS, "rights", problem, rights.remedy(name))
