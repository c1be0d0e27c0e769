"""How a run ended, in words."""

from __future__ import annotations

import re
import signal
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def words(code: int, terminated: bool) -> str:
    """code: of the script, as a shell gives it; terminated: Slurm sent SIGTERM before."""
    killed = out_of_memory()
    if killed:
        return f"exit code {code}; the kernel killed {killed} of its processes on this node: out of memory"
    if terminated:
        return f"exit code {code}; Slurm sent SIGTERM: cancelled, requeued by somebody or out of time"
    return f"exit code {code}{_signal_words(code)}"


def _signal_words(code: int) -> str:
    """Shells, srun and torchrun alike tell of a death by signal as 128 + its number."""
    if code == 128 + signal.SIGKILL:
        return ": a process was killed, as the kernel does when memory runs out"
    try:
        return f": a process died of {signal.Signals(code - 128).name}" if code > 128 else ""
    except ValueError:
        return ""


def out_of_memory(own: Path = OWN_CGROUP, cgroups: Path = CGROUPS) -> int:
    """Processes of this job on this node that the kernel killed for want of memory, where Slurm keeps jobs in cgroups v2."""
    try:
        path = own.read_text(encoding="utf-8").partition("0::/")[2].partition("\n")[0]
        job = re.match(r"(.*/)?job_[0-9]+(?=/|$)", path)
        events = (cgroups / job[0] / "memory.events").read_text(encoding="utf-8") if job else ""
    except (OSError, ValueError):
        return 0
    found = re.search(r"^oom_kill ([0-9]{1,9})$", events, re.MULTILINE)
    return int(found[1]) if found else 0
