"""The formulas of `las`: the order inside a queue, and the moments at which a job changes its queue."""

from __future__ import annotations

import math
from typing import Final

from tiresias.scheduler.config import SERVICE_TOLERANCE, PolicyConfig
from tiresias.scheduler.elementwise import (
    Columns,
    Values,
    either,
    interval,
    known,
    larger,
    pick,
    smaller,
    to_millisecond,
    where,
)
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policy import Rows
from tiresias.scheduler.rank.starve_limit import starves, until_change

# Sections of a queue.
RUNS: Final = 0
_BACK: Final = 1
_COMES: Final = 2
# Plain numbers compare faster.
_WAITING: Final = int(JobState.WAITING)
_RUNNING: Final = int(JobState.RUNNING)


def queue_of(attained: Values, config: PolicyConfig) -> Values:
    """Index of the queue for each service: queue i holds thresholds[i-1] <= service < thresholds[i]."""
    return interval(config.thresholds, attained + SERVICE_TOLERANCE)


def current_queue(jobs: Rows, config: PolicyConfig, promoted: Values) -> Values:
    """Index of each job's queue."""
    found = queue_of(jobs.attained, config)
    return found if promoted is False else where(promoted, 0, found)


def change(jobs: Rows, now: float, config: PolicyConfig) -> Values:
    """Return when the job sinks, or is promoted."""
    return either(jobs.state == _WAITING, _rises, _sinks, jobs, now, config)[0]


def _sinks(jobs: Rows, now: float, config: PolicyConfig) -> Columns:
    """When, as long as it runs."""
    attained = jobs.attained
    limit = pick(config.queue_ends, queue_of(attained, config))
    return (where(jobs.state == _RUNNING, now + (limit - attained) / jobs.gpus, math.inf),)


def _rises(jobs: Rows, now: float, config: PolicyConfig) -> Columns:
    """When a waiting job is promoted."""
    if not config.promotes:
        return (math.inf,)
    low = queue_of(jobs.attained, config) > 0
    promoted = where(low, now + wait_limit_s(jobs, config) - jobs.waited, math.inf)
    if not config.starving_first:
        return (promoted,)
    promoted = smaller(promoted, now + config.starve_limit - jobs.waited)
    drains = now + until_change(jobs.waited, config)
    return (where(starves(jobs, now), drains, promoted),)


def wait_limit_s(jobs: Rows, config: PolicyConfig) -> Values:
    """Return the seconds that a job which has run waits before it is promoted."""
    ran = larger(jobs.ran, SERVICE_TOLERANCE)  # inf times 0 is not a number
    return smaller(config.promote_knob * ran, config.starve_limit)


def running_first(jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values) -> Columns:
    """Return the sort keys of the order `running_first` inside a queue."""
    return either(jobs.state == _WAITING, _waits, _runs, jobs, now, config, queue, promoted)


def _waits(jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values) -> Columns:
    """Preempted jobs before jobs that entered the queue."""
    entered, settled = _place(jobs, now, config, queue, known(jobs.preempted, now))
    if promoted is not False:
        entered, settled = where(promoted, now, entered), where(promoted, False, settled)
    newest = -known(jobs.preempted, -math.inf)
    back = settled & (newest < math.inf)
    since = larger(known(jobs.last_start, math.inf), entered)
    return where(back, _BACK, _COMES), where(back, newest, entered), newest, since


def _runs(jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values) -> Columns:
    """First, except for jobs that sink at this very moment. Running jobs are never promoted."""
    entered, settled = _place(jobs, now, config, queue, now)
    newest = -known(jobs.preempted, -math.inf)
    since = larger(jobs.last_start, entered)
    stays = settled | (queue == 0)
    return where(stays, RUNS, _COMES), where(stays, since, entered), newest, since


def _place(jobs: Rows, now: float, config: PolicyConfig, queue: Values, stopped: Values) -> Columns:
    """When a job came into its queue, and whether it has had service there. Both follow from the service above the queue's lower
    limit, as nothing else happens while a job runs. `stopped`: when it last had service. Moments that are worked out from service
    are compared in milliseconds: below that they are rounding errors."""
    return either(queue == 0, _on_top, _below, jobs, now, config, queue, stopped)


def _on_top(jobs: Rows, now: float, config: PolicyConfig, queue: Values, stopped: Values) -> Columns:
    """It came by submission, or by the last promotion, since which it ran and waited."""
    entered = jobs.submit
    if config.promotes:
        reset = to_millisecond(now - jobs.ran - jobs.waited)
        entered = where(reset > entered + 1.0, reset, entered)
    return entered, jobs.attained > SERVICE_TOLERANCE


def _below(jobs: Rows, now: float, config: PolicyConfig, queue: Values, stopped: Values) -> Columns:
    """It sank."""
    above = jobs.attained - pick(config.queue_begins, queue)
    return to_millisecond(stopped - above / jobs.gpus), above > SERVICE_TOLERANCE
