"""The supervisor's side of the reports of GPU use: the process that measures it (activity_watcher.py), one for each run.

It starts once the script has run for an interval, so that short jobs have none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from tiresias.protocol import environment
from tiresias.wrappers import isolated
from tiresias.wrappers.job import Job
from tiresias.wrappers.side_process import SideProcess

INTERVAL_S, BELOW, WARN_AFTER_S = 60.0, 0.05, 1800.0  # the defaults of [idle_gpus]
OFF, SHOW = "off", "show"


class ActivityWatch(SideProcess):
    """The watcher of one job with GPUs; a job without a control folder has none.

    Args:
        job: The job.
        env: Its environment.
    """

    def __init__(self, job: Job, env: Mapping[str, str]) -> None:
        self._interval = _number(env, environment.IDLE_GPUS_INTERVAL, INTERVAL_S)
        words = (str(job.control), str(job.restart), *_options(env, self._interval))
        has_all = job.control and is_reported(env)
        command = isolated.command("tiresias.wrappers.gpu_activity.activity_watcher", *words) if has_all else []
        super().__init__(command, "the use of the GPUs cannot be reported")
        self._due = math.inf

    def schedule(self) -> None:
        """Have the process start after an interval."""
        self._due = time.monotonic() + self._interval if self._command else math.inf

    def poll(self) -> None:
        """Start the process where that is due."""
        if time.monotonic() >= self._due:
            self._due = math.inf
            self.begin()

    def wait(self) -> float:
        """Return the seconds until the process is due; inf: it is not."""
        return max(self._due - time.monotonic(), 0.0)

    def end(self) -> None:
        """Kill the process, once the script has ended."""
        self._due = math.inf
        super().end()


def is_reported(env: Mapping[str, str]) -> bool:
    """Return whether the site has the use of GPUs reported."""
    return env.get(environment.IDLE_GPUS_ACTION, SHOW) != OFF


def _options(env: Mapping[str, str], interval: float) -> tuple[str, ...]:
    """Return INTERVAL, BELOW and WARN_AFTER for the process."""
    below = _number(env, environment.IDLE_GPUS_BELOW, BELOW)
    warns = env.get(environment.IDLE_GPUS_ACTION, SHOW) != SHOW
    after = _number(env, environment.IDLE_GPUS_WARN_AFTER, WARN_AFTER_S) if warns else math.inf
    return str(interval), str(below), str(after)


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    """Return a variable where it is a number above 0."""
    try:
        found = float(env.get(name, ""))
    except ValueError:
        return default
    return found if 0.0 < found < math.inf else default
