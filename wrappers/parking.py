"""The wait of a job that has saved for its requeue, and its own request for one at the time limit."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from tiresias.protocol import environment
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import run_messages, time_limit

PARK_TIMEOUT_S = 90.0  # from a commit to the requeue; TIRESIAS_PARK_TIMEOUT
REQUEUE_RETRY_S = 5.0  # between two requests of a job for its own requeue
OUTAGE_S = 3600.0  # past the time limit, while slurmctld does not answer


class Parking:
    """The wait for a requeue, which arrives as SIGTERM.

    Args:
        job: As squeue's %i prints it: Slurm's own number of an array's last task is that of the whole array.
        signals: The blocked signals that end a wait.
        end: Epoch second at which the time limit ends this run, inf without one.
    """

    def __init__(self, job: str, signals: Collection[int], end: float) -> None:
        self._job, self._signals, self._end = job, signals, end

    def requeue_comes(self, timeout: float) -> bool:
        """Wait `timeout` seconds at most; return whether the requeue came."""
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0:
            received = signal.sigtimedwait(self._signals, remaining)
            if received and received.si_signo == signal.SIGTERM:
                return True
        return False

    def requeue_itself(self, checkpoints: Path) -> bool:
        """Request the requeue of a job at its time limit from Slurm; return True when the run's end came, with or without it.

        A slurmctld that does not answer ends no job; once it is back, some seconds pass until it detects the time limit.
        """
        reported, end = "", time.monotonic() + max(0.0, self._end - time.time()) + OUTAGE_S
        while problem := time_limit.requeue(self._job):
            if time_limit.is_refused(problem):
                log_line(f"{run_messages.ends_here(checkpoints)} Slurm does not requeue it: {problem}")
                return True
            if problem != reported:
                log_line(f"no requeue came, and the job's own request failed: {problem}; trying again")
            reported = problem
            if self.requeue_comes(REQUEUE_RETRY_S):
                return True
            if time.monotonic() > end:
                return False
        log_line("requeued by itself")
        return self.requeue_comes(end - time.monotonic())


def timeout_from(env: Mapping[str, str]) -> float:
    """Return TIRESIAS_PARK_TIMEOUT in seconds, or its default."""
    try:
        return max(0.0, float(env[environment.PARK_TIMEOUT])) if env.get(environment.PARK_TIMEOUT) else PARK_TIMEOUT_S
    except ValueError:
        return PARK_TIMEOUT_S
