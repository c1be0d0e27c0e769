"""Discretized 2D-LAS (sections 3.2.2 and 3.2.3): the less GPU service a job has had, the more urgent it is.

Service is cut into K queues. Inside a queue the option `in_queue_order` rules:

  running_first  running jobs by when they took their place, then preempted ones, the newest first, then those who came into the
                 queue, first come first served. A job that sinks into a queue at this very moment stands last of all.
  first_start    by the first start, never-started ones last (the paper's text, section 3.2.3)
  last_start     by the last start, never-started ones last (the paper's pseudocode 2, line 23)

Then the submit time, then the id. A starving job is promoted to queue 0 as if it had just come (pseudocode 2, lines 6 to 8).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.config import SERVICE_TOLERANCE, PolicyConfig
from tiresias.scheduler.model import Bools, Floats, Ints, Jobs, Snapshot, State
from tiresias.scheduler.policy import Ranking, ordered

# Moments that are worked out from service are compared in milliseconds: below that they are rounding errors.
_DIGITS = 3


class Las:
    preempts = True
    blocks = False

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        jobs = snapshot.jobs
        promoted = starving(jobs, config)
        queue = np.where(promoted, 0, config.queue_of(jobs.attained))
        keys = (queue, *_inside(snapshot, config, queue, promoted), jobs.submit)
        return Ranking(ordered(keys, jobs.id), queue, promoted)

    def next_change(self, snapshot: Snapshot, config: PolicyConfig) -> float:
        """When the next running job sinks or the next waiting one is promoted."""
        jobs = snapshot.jobs
        queue = config.queue_of(jobs.attained)
        high = np.array([*config.thresholds, np.inf])[queue]
        sinks = np.where(jobs.state == State.RUNNING, (high - jobs.attained) / jobs.gpus, np.inf)
        rises = np.where((jobs.state == State.WAITING) & (queue > 0), _patience(jobs, config) - jobs.waited, np.inf)
        return snapshot.time + float(np.minimum(sinks, rises).min(initial=np.inf))


def starving(jobs: Jobs, config: PolicyConfig) -> Bools:
    """Waiting jobs below queue 0 whose patience is at its end (section 3.2.3); shape (jobs,)."""
    low = config.queue_of(jobs.attained) > 0
    late = jobs.waited + SERVICE_TOLERANCE >= _patience(jobs, config)
    found: Bools = (jobs.state == State.WAITING) & low & late
    return found


def _patience(jobs: Jobs, config: PolicyConfig) -> Floats:
    """Seconds that a job which has run waits before it is promoted; shape (jobs,)."""
    ran = np.maximum(jobs.ran, SERVICE_TOLERANCE)  # inf times 0 is not a number
    return np.minimum(config.promote_knob * ran, config.starve_limit)


def _inside(
    snapshot: Snapshot, config: PolicyConfig, queue: Ints, promoted: Bools
) -> tuple[npt.NDArray[np.generic], ...]:
    """Sort keys inside a queue, the most significant first."""
    if config.in_queue_order == "running_first":
        return _running_first(snapshot, queue, _places(snapshot, config, queue, promoted))
    jobs = snapshot.jobs
    start = jobs.first_start if config.in_queue_order == "first_start" else jobs.last_start
    return (_or(start, np.inf),)


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """entered: when the job came into its queue. settled: it has had service in this queue. Shape (jobs,)."""

    entered: Floats
    settled: Bools


def _places(snapshot: Snapshot, config: PolicyConfig, queue: Ints, promoted: Bools) -> _Places:
    """Both follow from the service above the queue's lower limit, as nothing else happens while a job runs."""
    jobs, now = snapshot.jobs, snapshot.time
    above = jobs.attained - np.array([0.0, *config.thresholds])[queue]
    stopped = np.where(jobs.state == State.WAITING, _or(jobs.preempted, now), now)
    sank = np.round(stopped - above / jobs.gpus, _DIGITS)
    entered = np.where(queue > 0, sank, _arrived(jobs, now))
    return _Places(np.where(promoted, now, entered), (above > SERVICE_TOLERANCE) & ~promoted)


def _arrived(jobs: Jobs, now: float) -> Floats:
    """Into queue 0: by submission, or by the last promotion, since which the job ran and waited."""
    reset = np.round(now - jobs.ran - jobs.waited, _DIGITS)
    return np.where(reset > jobs.submit + 1.0, reset, jobs.submit)


def _running_first(snapshot: Snapshot, queue: Ints, places: _Places) -> tuple[npt.NDArray[np.generic], ...]:
    jobs, entered = snapshot.jobs, places.entered
    on_gpus = jobs.state != State.WAITING
    runs = on_gpus & (places.settled | (queue == 0))
    back = ~on_gpus & places.settled & ~np.isnan(jobs.preempted)
    newest = -_or(jobs.preempted, -np.inf)
    since = np.maximum(_or(jobs.last_start, np.inf), entered)
    section = np.where(runs, 0, np.where(back, 1, 2))
    place = np.where(runs, since, np.where(back, newest, entered))
    return section, place, newest, since


def _or(moments: Floats, otherwise: float) -> Floats:
    return np.where(np.isnan(moments), otherwise, moments)
