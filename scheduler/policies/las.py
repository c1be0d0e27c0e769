"""Discretized 2D-LAS (sections 3.2.2 and 3.2.3): the less GPU service a job has had, the more urgent it is.

Service is cut into K queues. Inside a queue the option `in_queue_order` rules:

  running_first  running jobs by when they took their place, then preempted ones, the newest first, then those who came into the
                 queue, first come first served. A job that sinks into a queue at this very moment stands last of all.
  first_start    by the first start, never-started ones last (the paper's text, section 3.2.3)
  last_start     by the last start, never-started ones last (the paper's pseudocode 2, line 23)

Then the submit time, then the id. A starving job is promoted to queue 0 as if it had just come (pseudocode 2, lines 6 to 8).
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from tiresias.scheduler.config import SERVICE_TOLERANCE, PolicyConfig
from tiresias.scheduler.elementwise import Columns, Values, either, known, larger, pick, rounded, smaller, where
from tiresias.scheduler.model import State
from tiresias.scheduler.policy import Policy, Rows

# Moments that are worked out from service are compared in milliseconds: below that they are rounding errors.
_DIGITS = 3
_WAITING, _RUNNING = int(State.WAITING), int(State.RUNNING)  # plain numbers compare faster


class Las(Policy):
    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        queue = config.queue_of(jobs.attained)
        if promoted is not False:
            queue = where(promoted, 0, queue)
        return queue, *self.inside(jobs, now, config, queue, promoted)

    def inside(
        self, jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values
    ) -> tuple[Values, ...]:
        """Sort keys inside a queue, the most significant first."""
        if config.in_queue_order == "running_first":
            return _running_first(jobs, now, config, queue, promoted)
        start = jobs.first_start if config.in_queue_order == "first_start" else jobs.last_start
        return (known(start, math.inf),)

    def promoted(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Waiting jobs below queue 0 whose patience is at its end (section 3.2.3)."""
        if not config.promotes:
            return False
        low = config.queue_of(jobs.attained) > 0
        late = jobs.waited + SERVICE_TOLERANCE >= _patience(jobs, config)
        return (jobs.state == _WAITING) & low & late

    def settled(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """A job that sank at this moment stands last now and first as soon as it goes on."""
        if config.in_queue_order != "running_first":
            return True
        queue = config.queue_of(jobs.attained)
        return (queue == 0) | (_above(jobs, config, queue) > SERVICE_TOLERANCE)

    def change(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """When the job sinks, or is promoted."""
        rises, sinks = partial(_rises, jobs, now, config), partial(_sinks, jobs, now, config)
        return either(jobs.state == _WAITING, rises, sinks)[0]


def _sinks(jobs: Rows, now: float, config: PolicyConfig) -> Columns:
    """When, as long as it runs."""
    attained = jobs.attained
    limit = pick((*config.thresholds, math.inf), config.queue_of(attained))
    return (where(jobs.state == _RUNNING, now + (limit - attained) / jobs.gpus, math.inf),)


def _rises(jobs: Rows, now: float, config: PolicyConfig) -> Columns:
    """When a waiting job is promoted."""
    if not config.promotes:
        return (math.inf,)
    low = config.queue_of(jobs.attained) > 0
    return (where(low, now + _patience(jobs, config) - jobs.waited, math.inf),)


def _patience(jobs: Rows, config: PolicyConfig) -> Values:
    """Seconds that a job which has run waits before it is promoted."""
    ran = larger(jobs.ran, SERVICE_TOLERANCE)  # inf times 0 is not a number
    return smaller(config.promote_knob * ran, config.starve_limit)


class _Place(NamedTuple):
    """entered: when the job came into its queue. settled: it has had service in this queue."""

    entered: Values
    settled: Values


def _above(jobs: Rows, config: PolicyConfig, queue: Values) -> Values:
    """Service in this queue."""
    return jobs.attained - pick((0.0, *config.thresholds), queue)


def _place(jobs: Rows, now: float, config: PolicyConfig, queue: Values, stopped: Values) -> _Place:
    """Both follow from the service above the queue's lower limit, as nothing else happens while a job runs. `stopped`: when it
    last had service."""
    above = _above(jobs, config, queue)
    sank = partial(_sank, stopped, above, jobs.gpus)
    (entered,) = either(queue > 0, sank, partial(_arrived, jobs, now, config))
    return _Place(entered, above > SERVICE_TOLERANCE)


def _sank(stopped: Values, above: Values, gpus: Values) -> Columns:
    """Into a lower queue."""
    return (rounded(stopped - above / gpus, _DIGITS),)


def _arrived(jobs: Rows, now: float, config: PolicyConfig) -> Columns:
    """In queue 0: by submission, or by the last promotion, since which the job ran and waited."""
    if not config.promotes:
        return (jobs.submit,)
    reset = rounded(now - jobs.ran - jobs.waited, _DIGITS)
    return (where(reset > jobs.submit + 1.0, reset, jobs.submit),)


def _running_first(jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values) -> Columns:
    waits = partial(_waits, jobs, now, config, queue, promoted)
    return either(jobs.state == _WAITING, waits, partial(_runs, jobs, now, config, queue))


def _waits(jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values) -> Columns:
    """Section 1 for those who come back, 2 for those who come."""
    entered, settled = _place(jobs, now, config, queue, known(jobs.preempted, now))
    if promoted is not False:
        entered, settled = where(promoted, now, entered), where(promoted, False, settled)
    newest = -known(jobs.preempted, -math.inf)
    back = settled & (newest < math.inf)
    since = larger(known(jobs.last_start, math.inf), entered)
    return where(back, 1, 2), where(back, newest, entered), newest, since


def _runs(jobs: Rows, now: float, config: PolicyConfig, queue: Values) -> Columns:
    """Section 0, but for those who sink at this very moment."""
    entered, settled = _place(jobs, now, config, queue, now)
    newest = -known(jobs.preempted, -math.inf)
    since = larger(jobs.last_start, entered)
    stays = settled | (queue == 0)
    return where(stays, 0, 2), where(stays, since, entered), newest, since
