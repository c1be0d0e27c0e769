"""Log messages on the end of a run."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tiresias.protocol.opportunistic_choice import RESTART

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def cut_off(run: int, before: int, choice: str) -> str:
    """The message for a run after one that did not save. choice: of `tsbatch --opportunistic`."""
    needed = ", or its GPUs were needed, --opportunistic=restart" if choice == RESTART else ""
    return f"run {run} begins; run {before} was cut off before it could save (node failure, requeue{needed})"


def ended(code: int, terminated: bool, final: bool = False) -> str:
    """Describe the end of a script.

    Args:
        code: The exit code, or minus the signal that ended it.
        terminated: Slurm sent SIGTERM before.
        final: The code is one of TIRESIAS_FINAL_CODES.
    """
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    if final:
        return f"{how}, which TIRESIAS_FINAL_CODES lists: the job is neither requeued nor resumed"
    killed = out_of_memory()
    if killed:
        return f"{how}; the kernel killed {killed} of its processes on this node: out of memory"
    if terminated:
        return f"{how}; Slurm sent SIGTERM: cancelled, requeued or out of time"
    return f"{how}{_signal_words(code if code >= 0 else 128 - code)}"


def late_words(here: int, elsewhere: int, step: int, limit_in: float | None) -> str:
    """Describe a program that did not save in time.

    Args:
        here: Number of its processes on this node.
        elsewhere: Number of its processes on other nodes.
        step: Step of its newest checkpoint, -1 without one.
        limit_in: Seconds to the time limit that caused the save, None for a preemption.
    """
    still = f"the program has not saved in time ({here} processes here and {elsewhere} on other nodes still run)"
    if limit_in is not None:
        follows = f"the time limit ends this job in {max(limit_in, 0.0):.0f} s"
        lost = f"and what it did after step {step} is lost" if step >= 0 else "and all its work is lost"
    elif step >= 0:
        follows, lost = f"the controller requeues the job to its checkpoint of step {step}", "and later steps are lost"
    else:
        follows, lost = "the job keeps its GPUs", "and is not asked to save again in this run"
    advice = "call should_stop() at every step and save faster; tiresias rehearse SCRIPT shows how long it takes"
    return f"{still}: {follows}, {lost}. To do: {advice}"


def saved_without_requeue(step: int, folder: Path) -> str:
    """Describe a job that saved before its time limit and must not be requeued."""
    return f"saved step {step} before its time limit. {ends_here(folder)} It was submitted with --no-requeue."


def ends_here(folder: Path) -> str:
    """Describe a job that ends although its program could go on."""
    return f"The job ends here and releases its GPUs; its checkpoints are in {folder}."


def _signal_words(code: int) -> str:
    """Shells, srun and torchrun report a death by signal as 128 + its number."""
    if code == 128 + signal.SIGKILL:
        return ": a process was killed, as the kernel does when memory runs out"
    try:
        return f": a process died of {signal.Signals(code - 128).name}" if code > 128 else ""
    except ValueError:
        return ""


def out_of_memory(own: Path = OWN_CGROUP, cgroups: Path = CGROUPS) -> int:
    """Processes of this job on this node that the kernel killed when memory ran out, where Slurm keeps jobs in cgroups v2."""
    try:
        path = own.read_text(encoding="utf-8").partition("0::/")[2].partition("\n")[0]
        job = re.match(r"(.*/)?job_[0-9]+(?=/|$)", path)
        events = (cgroups / job[0] / "memory.events").read_text(encoding="utf-8") if job else ""
    except (OSError, ValueError):
        return 0
    found = re.search(r"^oom_kill ([0-9]{1,9})$", events, re.MULTILINE)
    return int(found[1]) if found else 0
