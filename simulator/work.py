"""What follows from the state of simulated jobs at a moment: written once for one job and for jobs in columns."""

from __future__ import annotations

from typing import Final, Protocol

from tiresias.scheduler.elementwise import Values, larger, where
from tiresias.scheduler.model import JobState

_WAITING: Final = int(JobState.WAITING)
_RUNNING: Final = int(JobState.RUNNING)


class Work(Protocol):
    """The state of one job (`SimulatedJob` documents it), or of many (`JobColumns`)."""

    now: float
    state: Values
    submit: Values
    duration: Values
    last_start: Values
    paced_from: Values
    reset: Values
    held: Values
    uncounted: Values
    done: Values
    slow: Values

    @property
    def ran(self) -> Values:
        """Seconds on GPUs since the last promotion."""


def ran(jobs: Work) -> Values:
    """Return the seconds on GPUs since the last promotion."""
    return jobs.held - jobs.uncounted + where(jobs.state == _WAITING, 0.0, jobs.now - jobs.last_start)


def waited(jobs: Work) -> Values:
    """Return the seconds of waiting since the last promotion."""
    return jobs.now - larger(jobs.submit, jobs.reset) - jobs.ran


def remaining(jobs: Work) -> Values:
    """Return the seconds of work left."""
    worked = where(jobs.state == _RUNNING, larger(0.0, jobs.now - jobs.paced_from) / jobs.slow, 0.0)
    return jobs.duration - jobs.done - worked
