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
from typing import Final

from tiresias.scheduler.config import SERVICE_TOLERANCE, PolicyConfig
from tiresias.scheduler.elementwise import Values, both, known, pick, where
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank import las_order
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows
from tiresias.scheduler.rank.starve_limit import may_drain, next_change, starves

_WAITING: Final = int(JobState.WAITING)  # a plain number compares faster


class Las(IncrementalPolicy):
    """The policy `las`."""

    has_queues = True

    def ranks_running_first(self, config: PolicyConfig) -> bool:
        """Return whether the option `in_queue_order` says so."""
        return config.in_queue_order == "running_first"

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: the queue, then the order inside the queue."""
        queue = las_order.current_queue(jobs, config, promoted)
        inside = self.inside(jobs, now, config, queue, promoted)
        if not config.starving_first:
            return (queue,) + inside  # noqa: RUF005 (compiled, the other form makes a list first)
        return queue, where(starves(jobs, now) | promoted, 0, 1), *inside

    def inside(
        self, jobs: Rows, now: float, config: PolicyConfig, queue: Values, promoted: Values
    ) -> tuple[Values, ...]:
        """Sort keys inside a queue, the most significant first."""
        if config.in_queue_order == "running_first":
            return las_order.running_first(jobs, now, config, queue, promoted)
        start = jobs.first_start if config.in_queue_order == "first_start" else jobs.last_start
        return (known(start, math.inf),)

    def promoted(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Waiting jobs below queue 0 whose wait limit has passed (section 3.2.3). `starve_limit` holds for jobs in queue 0, too."""
        if not config.promotes:
            return False
        low = las_order.queue_of(jobs.attained, config) > 0
        late = jobs.waited + SERVICE_TOLERANCE >= las_order.wait_limit_s(jobs, config)
        if not config.starving_first:
            return (jobs.state == _WAITING) & low & late
        late_too = where(starves(jobs, now), False, jobs.waited + SERVICE_TOLERANCE >= config.starve_limit)
        return (jobs.state == _WAITING) & ((low & late) | late_too)

    def starves(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> Values:
        """Return whether the job was promoted by `starve_limit` and has not run since."""
        return (starves(jobs, now) | promoted) if config.starving_first else False

    def drains(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return whether the waiting job starves and GPUs may be kept free for it now."""
        if not config.starving_first:
            return False
        return both(starves(jobs, now), may_drain, jobs.waited, config)

    def cost(self, keys: tuple[Values, ...], config: PolicyConfig) -> Values:
        """Return the service at which the job's queue begins: a job that has had so much is expected to need as much again."""
        return pick(config.queue_begins, keys[0])

    def settled(self, keys: tuple[Values, ...], config: PolicyConfig) -> Values:
        """A job that sank at this moment stands last now and first as soon as it goes on; one that starved and starts at this
        moment stands first now and in its usual place as soon as it goes on."""
        stays = config.in_queue_order != "running_first" or keys[-4] == las_order.RUNS
        return stays & (keys[1] == 1) if config.starving_first else stays

    def change(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """When the job sinks, or is promoted."""
        return las_order.change(jobs, now, config)

    def next_change(self, job: Rows, now: float, config: PolicyConfig) -> str:
        """Return what happens to a waiting job at the moment that `change` returns, in words."""
        if not (config.starving_first and starves(job, now)):
            return "it is promoted"
        return next_change(bool(self.drains(job, now, config)))


LAS = Las()
