"""The job's time limit: when to save before it, and the job's own request for a requeue.

Slurm passes the end of the run in SLURM_JOB_END_TIME (24.11 and 26.05 do; 22.05 does not, and squeue reports it: end_query.py). At
the limit it sends SIGTERM, which srun turns into SIGKILL for all its tasks at once (26.05): so the program is signalled before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiresias.protocol import environment

LEAST, MOST = 30.0, 300.0  # seconds before the end, where no save of this program was timed yet: a tenth of the limit
MARGIN = 60.0  # seconds before the end besides three times what a save took
NO_LIMIT_S = 365 * 86400 - 3600.0  # Slurm writes "in a year" for a job without a limit
REQUEUE_TIMEOUT = 30.0
SAVE_DEADLINE = 120.0  # seconds; TIRESIAS_SAVE_DEADLINE, the site's preemption.deadline
_SECONDS = re.compile("[0-9]{1,12}", re.ASCII)


def end_time(env: Mapping[str, str]) -> float | None:
    """Epoch seconds at which Slurm will end this run; inf where there is no limit, None where Slurm does not pass it."""
    return end_of(env.get("SLURM_JOB_START_TIME", ""), env.get("SLURM_JOB_END_TIME", ""))


def end_of(start: str, end: str) -> float | None:
    """Return the end of a run by its start and end in epoch seconds; inf without a limit, None where they are no such times."""
    if not (_SECONDS.fullmatch(start) and _SECONDS.fullmatch(end)) or int(end) <= int(start):
        return None
    return float(end) if int(end) - int(start) < NO_LIMIT_S else float("inf")


def lead(limit: float, save: float | None) -> float:
    """Return how many seconds before its end a run of `limit` seconds must save; `save`: seconds of the last save."""
    if save is not None:
        return min(MARGIN + 3 * save, max(limit / 2, LEAST))
    return min(max(limit / 10, LEAST), MOST)


def save_deadline(env: Mapping[str, str]) -> float:
    """Seconds from a preemption request until the controller stops waiting for the checkpoint."""
    try:
        return max(0.0, float(env.get(environment.SAVE_DEADLINE) or SAVE_DEADLINE))
    except ValueError:
        return SAVE_DEADLINE


def is_refused(problem: str) -> bool:
    """Whether scontrol's message about a requeue is final: the job has Requeue=0 (ESLURM_DISABLED)."""
    return "presently disabled" in problem


def requeue(job: str) -> str:
    """Ask Slurm to requeue this very job, as its owner may; "" or why not."""
    import subprocess  # here: few jobs ever come to it

    try:
        done = subprocess.run(
            ["scontrol", "requeue", job],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=REQUEUE_TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        return "there is no scontrol here"
    except (OSError, subprocess.SubprocessError) as error:
        return f"scontrol: {error}"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["scontrol failed"])[-1]
