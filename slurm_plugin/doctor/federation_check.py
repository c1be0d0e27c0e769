"""Whether Slurm's cluster is in a federation, whose jobs are left to Slurm."""

from __future__ import annotations

import re

from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.doctor.host_checks import output

_FEDERATION = re.compile(r"^Federation:\s*(\S+)", re.MULTILINE)


def finding() -> Finding:
    """Check for a federation."""
    return judged(output("scontrol", "show", "federation"))


def judged(printed: str) -> Finding:
    """Return the finding from the output of `scontrol show federation`."""
    found = _FEDERATION.search(printed)
    if not found:
        return fine("federation", "this cluster is in none; jobs that `sbatch -M` sends here are managed as others")
    return Finding(
        Level.RISK,
        "federation",
        f"this cluster is in federation {found[1]}: its jobs have siblings on other clusters, and are left to Slurm",
        "take the cluster out of the federation to have its new jobs managed",
    )
