"""The report of how a job uses its GPUs: `activity.json` in its control folder (control.py).

A process beside the job's script writes it (wrappers/gpu_activity/), on the job's first node. One JSON object:

    {"protocol": [1, 2], "restart": 0, "source": "nvml", "count": 17, "idle": [420.0, 0.0]}

restart: Slurm's restart count of the run. source: what was measured (SOURCES). count: the number of the report in this run. idle:
seconds for which each GPU of the node has been unused without a break; one number for all GPUs where the source cannot distinguish
them.

A report is a claim of the job's owner, and read like the other files there. It only concerns the owner's job: a false one keeps the
job its rank. A value outside of its bounds makes the report invalid. Light imports only.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control, versions

NVML, DCGM, PROCESSES = "nvml", "dcgm", "processes"
SOURCES = {
    NVML: "measured by NVML",
    DCGM: "measured by dcgm-exporter",
    PROCESSES: "by the CPU time of its processes: NVML is not available there",
}
MOST_GPUS = 64  # of a node
LONGEST_S = 1e9


class GpuActivity(NamedTuple):
    """A report; the fields of activity.json.

    Attributes:
        restart: Slurm's restart count of the run; -1: there is no report.
        source: A key of SOURCES.
        number: The number of the report in this run.
        idle: Seconds for which each GPU has been unused.
    """

    restart: int = -1
    source: str = ""
    number: int = -1
    idle: tuple[float, ...] = ()


NO_ACTIVITY = GpuActivity()


def write(folder: Path, activity: GpuActivity) -> None:
    """Put the report into the job's control folder, in one rename. Raises OSError."""
    seconds = [round(one, 1) for one in activity.idle]
    stated = {"restart": activity.restart, "source": activity.source, "count": activity.number, "idle": seconds}
    control.write(folder, control.ACTIVITY, {versions.KEY: versions.OWN, **stated})


def read(root: Path, uid: int, job_id: str) -> GpuActivity:
    """Return the newest report of a job, NO_ACTIVITY without a valid one."""
    found = control.read(control.job_folder(root, uid, job_id) / control.ACTIVITY, uid)
    restart, count = control.integer(found.get("restart")), control.integer(found.get("count"))
    source, idle = found.get("source"), _seconds(found.get("idle"))
    is_known = isinstance(source, str) and source in SOURCES
    if restart < 0 or count < 0 or not idle or not is_known:
        return NO_ACTIVITY
    return GpuActivity(restart, str(source), count, idle)


def idle_words(seconds: float) -> str:
    """Return an idle time for a sentence."""
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _seconds(value: object) -> tuple[float, ...]:
    """The durations; () where one is none."""
    if not isinstance(value, list) or not 0 < len(value) <= MOST_GPUS:
        return ()
    are_valid = all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and 0 <= one <= LONGEST_S for one in value
    )
    return tuple(float(one) for one in value) if are_valid else ()
