"""Whether programs on this node can have a region of remote memory, by a user's own rights, in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine

MODULE = (sys.executable, "-m", "tiresias.services.remote_memory.region", "node")
TIMEOUT_S = 60.0
_ABOUT = "regions of programs"
_REMEDY = "nothing where no program uses remote memory without root; else docs/how-to/remote-memory-regions.md"
_WORKS = "can have a region; system calls wait for its pages"


def finding(command: Sequence[str] = MODULE) -> Finding:
    """Check this host. command: prints one line."""
    try:
        words = processes.run(command, TIMEOUT_S).stdout.decode().strip()
        if len(words.splitlines()) != 1:
            raise ValueError(f"{words!r} is not one line")
    except (SlurmUnavailable, ValueError) as error:
        return Finding(Level.ADVICE, _ABOUT, f"not checked: {error}", _REMEDY)
    found = f"{os.environ.get('SLURMD_NODENAME') or os.uname().nodename}: {words}"
    return fine(_ABOUT, found) if words.endswith(_WORKS) else Finding(Level.ADVICE, _ABOUT, found, _REMEDY)
