"""Whether a node can give a job swap on remote memory (docs/how-to/remote-memory.md), in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine

MODULE = (sys.executable, "-m", "tiresias.services.remote_memory.job_swap", "node")
TIMEOUT_S = 60.0
_ABOUT = "swap of a job"
_REMEDY = "nothing where no job requests remote memory; else docs/how-to/remote-memory.md"


def finding(command: Sequence[str] = MODULE) -> Finding:
    """Check this host. command: prints what it has, as JSON."""
    try:
        found = json.loads(processes.run(command, TIMEOUT_S).stdout)
        words = f"{os.environ.get('SLURMD_NODENAME') or os.uname().nodename}: {_words(found)}"
        bad = bool(found["missing"] or found["risks"] or found["configuration"]["problems"])
    except (SlurmUnavailable, ValueError, KeyError, TypeError, AttributeError) as error:
        return Finding(Level.ADVICE, _ABOUT, f"not checked: {error}", _REMEDY)
    return Finding(Level.ADVICE, _ABOUT, words, _REMEDY) if bad else fine(_ABOUT, words)


def _words(found: dict[str, Any]) -> str:
    if found["missing"]:
        return f"cannot be used: {'; '.join(found['missing'])}"
    configured = found["configuration"]
    parts = [f"works with cgroup {found['cgroup']}", found["compression"], *configured["works"]]
    return "; ".join([*parts, *configured["problems"], *found["risks"]])
