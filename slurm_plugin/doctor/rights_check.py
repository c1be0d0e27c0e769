"""Check whether this user may hold, requeue and release other users' jobs, by a query of Slurm; no job is modified."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.cluster.rights import read_rights, user_name


def finding(config: Mapping[str, str]) -> Finding:
    """Check the user who runs this: run it as the controller's user."""
    uid, rights = os.geteuid(), read_rights(config, deadline=20.0)
    name = user_name(uid)
    if uid in rights.masters:
        return Finding(
            Level.ADVICE,
            "rights",
            f"{name} has all rights in Slurm; the controller needs fewer",
            "a separate user with AdminLevel=Operator (run the doctor as that user)",
        )
    if uid in rights.operators:
        return fine("rights", f"{name} may modify other users' jobs")
    problem = rights.unknown or f"{name} may not modify other users' jobs"
    return Finding(Level.BLOCKS, "rights", problem, rights.remedy(name))
