"""Discretized 2D-LAS (sections 3.2.2 and 3.2.3): the less GPU service a job has had, the more urgent it is.

Service is cut into K queues. Inside a queue the option `in_queue_order` rules:

  running_first  running jobs by when they took their place, then preempted ones, the newest first, then those who came into the
                 queue, first come first served. A job that sinks into a queue at this very moment stands last of all.
  first_start    by the first start, never-started ones last (the paper's text, section 3.2.3)
  last_start     by the last start, never-started ones last (the paper's pseudocode 2, line 23)

Then the submit time, then the id. A starving job is promoted to queue 0 as if it had just come (pseudocode 2, lines 6 to 8).
With `starve_limit`, which the paper does not have, it goes before all others there until it starts.
"""

from __future__ import annotations

import math

from tiresias.scheduler.config import SERVICE_TOLERANCE, PolicyConfig
from tiresias.scheduler.elementwise import Columns, Values, either, known, larger, pick, rounded, smaller, where
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows
from tiresias.scheduler.rank.starve_limit import may_drain, next_change, starves, until_change

# Moments that are worked out from service are compared in milliseconds: below that they are rounding errors.
_DIGITS = 3
_RUNS, _BACK, _COMES = 0, 1, 2  # sections of a queue
_WAITING, _RUNNING = int(JobState.WAITING), int(JobState.RUNNING)  # plain numbers compare faster


class Las(IncrementalPolicy):
    """The policy `las`."""

    has_queues = True

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: the queue, then the order inside the queue."""
        queue = config.queue_of(jobs.attained)
        if promoted is not False:
            queue = where(promoted, 0, queue)
        inside = self.inside(jobs, now, config, queue, promoted)
        if not config.starving_first:
            return queue, *inside
        return queue, where(starves(jobs, now) | promoted, 0, 1), *inside

    def inside(
        self, jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values
    ) -> tuple[Values, ...]:
        """Sort keys inside a queue, the most significant first."""
        if config.in_queue_order == "running_first":
            return _running_first(jobs, now, config, queue, promoted)
        start = jobs.first_start if config.in_queue_order == "first_start" else jobs.last_start
        return (known(start, math.inf),)

    def promoted(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Waiting jobs below queue 0 whose wait limit has passed (section 3.2.3). `starve_limit` holds for jobs in queue 0, too."""
        if not config.promotes:
            return False
        low = config.queue_of(jobs.attained) > 0
        late = jobs.waited + SERVICE_TOLERANCE >= _wait_limit_s(jobs, config)
        if not config.starving_first:
            return (jobs.state == _WAITING) & low & late
        late_too = where(starves(jobs, now), False, jobs.waited + SERVICE_TOLERANCE >= config.starve_limit)
        return (jobs.state == _WAITING) & ((low & late) | late_too)

    def drains(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return whether the waiting job starves and GPUs may be kept free for it now."""
        if not config.starving_first:
            return False
        return starves(jobs, now) & may_drain(jobs.waited, config)

    def settled(self, keys: tuple[Values, ...], config: PolicyConfig) -> Values:
        """A job that sank at this moment stands last now and first as soon as it goes on; one that starved and starts at this
        moment stands first now and in its usual place as soon as it goes on."""
        stays = config.in_queue_order != "running_first" or keys[-4] == _RUNS
        return stays & (keys[1] == 1) if config.starving_first else stays

    def change(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """When the job sinks, or is promoted."""
        return either(jobs.state == _WAITING, _rises, _sinks, jobs, now, config)[0]

    def next_change(self, job: Rows, now: float, config: PolicyConfig) -> str:
        """Return what happens to a waiting job at the moment that `change` returns, in words."""
        if not (config.starving_first and starves(job, now)):
            return "it is promoted"
        return next_change(bool(self.drains(job, now, config)))


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
    promoted = where(low, now + _wait_limit_s(jobs, config) - jobs.waited, math.inf)
    if not config.starving_first:
        return (promoted,)
    promoted = smaller(promoted, now + config.starve_limit - jobs.waited)
    drains = now + until_change(jobs.waited, config)
    return (where(starves(jobs, now), drains, promoted),)


def _wait_limit_s(jobs: Rows, config: PolicyConfig) -> Values:
    """Seconds that a job which has run waits before it is promoted."""
    ran = larger(jobs.ran, SERVICE_TOLERANCE)  # inf times 0 is not a number
    return smaller(config.promote_knob * ran, config.starve_limit)


def _running_first(jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values) -> Columns:
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
    return where(stays, _RUNS, _COMES), where(stays, since, entered), newest, since


def _place(jobs: Rows, now: float, config: PolicyConfig, queue: Values, stopped: Values) -> Columns:
    """When a job came into its queue, and whether it has had service there. Both follow from the service above the queue's lower
    limit, as nothing else happens while a job runs. `stopped`: when it last had service."""
    return either(queue == 0, _on_top, _below, jobs, now, config, queue, stopped)


def _on_top(jobs: Rows, now: float, config: PolicyConfig, queue: Values, stopped: Values) -> Columns:
    """It came by submission, or by the last promotion, since which it ran and waited."""
    entered = jobs.submit
    if config.promotes:
        reset = rounded(now - jobs.ran - jobs.waited, _DIGITS)
        entered = where(reset > entered + 1.0, reset, entered)
    return entered, jobs.attained > SERVICE_TOLERANCE


def _below(jobs: Rows, now: float, config: PolicyConfig, queue: Values, stopped: Values) -> Columns:
    """It sank."""
    above = jobs.attained - pick((0.0, *config.thresholds), queue)
    return rounded(stopped - above / jobs.gpus, _DIGITS), above > SERVICE_TOLERANCE


LAS = Las()
