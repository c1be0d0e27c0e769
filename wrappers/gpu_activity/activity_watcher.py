"""A process beside the user's script that reports for how long the job's GPUs have been unused.

    activity_watcher CONTROL_FOLDER RESTART INTERVAL BELOW WARN_AFTER      standard error: the job's

INTERVAL: seconds between two reports. BELOW: the use below which a GPU counts as unused, 0 to 1. WARN_AFTER: seconds after which
one line is written to the job's output; inf: never. It is a process of its own, since a library of a driver may hang. The
supervisor kills it when the script ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tiresias.protocol import gpu_activity
from tiresias.protocol.gpu_activity import SOURCES, GpuActivity
from tiresias.protocol.job_log import log_line
from tiresias.wrappers.gpu_activity.dcgm_meter import DcgmMeter
from tiresias.wrappers.gpu_activity.idle_times import IdleTimes
from tiresias.wrappers.gpu_activity.meters import Meter, MeterUnavailable
from tiresias.wrappers.gpu_activity.nvml_meter import NvmlMeter
from tiresias.wrappers.gpu_activity.process_meter import ProcessMeter

SAMPLES = 6  # of the use of the GPUs between two reports


class ActivityWatcher:
    """Samples a meter, and reports.

    Args:
        meter: The meter.
        folder: The job's control folder.
        restart: Slurm's restart count.
        below: As of IdleTimes.
        warn_after: Seconds after which a line is written to the job's output.
    """

    def __init__(self, meter: Meter, folder: Path, restart: int, below: float, warn_after: float) -> None:
        self._meter, self._folder, self._restart, self._warn_after = meter, folder, restart, warn_after
        self._idle, self._count, self._is_warned = IdleTimes(below), 0, False

    def sample(self, now: float) -> None:
        """Measure once. Raises MeterUnavailable."""
        self._idle.add(now, self._meter.use())

    def report(self, now: float) -> None:
        """Write the report, and the line where it is due. Raises OSError."""
        idle = self._idle.seconds(now)
        if not idle:
            return
        gpu_activity.write(self._folder, GpuActivity(self._restart, self._meter.source, self._count, idle))
        self._count += 1
        is_due = min(idle) >= self._warn_after
        if is_due and not self._is_warned:
            log_line(warning(min(idle), self._meter.source))
        self._is_warned = is_due


def warning(idle: float, source: str) -> str:
    """Return the line for the job's output. idle: seconds."""
    known = f"{gpu_activity.idle_words(idle)} ({SOURCES[source]})"
    return f"this job has not used its GPUs for {known}: end it if it does not need them"


def meter_of(env: Mapping[str, str]) -> Meter:
    """Return the best meter that works on this node."""
    for meter in (NvmlMeter, DcgmMeter):
        with suppress(MeterUnavailable):
            return meter(env)
    return ProcessMeter(env.get("SLURM_JOB_ID", ""), gpus_of(env))


def gpus_of(env: Mapping[str, str]) -> int:
    """Return the number of the job's GPUs on this node; 1 where it is not known."""
    count = env.get("SLURM_GPUS_ON_NODE", "")
    return int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 1


def main(folder: str, restart: str, interval: str, below: str, warn_after: str) -> None:
    """Watch until the parent ends, or the report cannot be written. The job continues in each case."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    parent, meter = os.getppid(), meter_of(os.environ)
    watcher = ActivityWatcher(meter, Path(folder), int(restart), float(below), float(warn_after))
    try:
        while os.getppid() == parent:
            for _ in range(SAMPLES):
                watcher.sample(time.monotonic())
                time.sleep(float(interval) / SAMPLES)
            watcher.report(time.monotonic())
    except (MeterUnavailable, OSError) as error:
        log_line(f"the use of the GPUs is not reported any more: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
