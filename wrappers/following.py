"""The supervisor's side of `tsbatch --steps-from`: the process that follows the output (steps_follower.py), one for each run."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from tiresias.protocol import environment
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import isolated
from tiresias.wrappers.job import Job


class Following:
    """The follower of one job; without a pattern or a control folder there is none.

    Args:
        job: The job.
        env: Its environment.
    """

    def __init__(self, job: Job, env: Mapping[str, str]) -> None:
        pattern = env.get(environment.STEPS_FROM, "")
        words = (pattern, str(job.control), str(job.restart))
        self._command = isolated.command("tiresias.wrappers.steps_follower", *words) if pattern and job.control else []
        self._child = 0

    def begin(self) -> None:
        """Start the follower. A problem is logged: the job runs without it."""
        if not self._command:
            return
        try:
            self._child = os.posix_spawn(self._command[0], self._command, os.environ, setpgroup=0)
        except OSError as error:
            log_line(f"the job's output cannot be followed: {error.strerror}")

    def end(self) -> None:
        """Kill the follower, once the script has ended."""
        child, self._child = self._child, 0
        if child:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
