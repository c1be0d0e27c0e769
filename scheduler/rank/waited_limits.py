"""The waits of jobs in whole times of `starve_limit`: which jobs starve under `adaptive`, until when, and how much lower that makes
the price of their completion.

A job starves that has waited for more whole times of `starve_limit` than it has run for.
"""

from __future__ import annotations

import math
import sys
from typing import Final

from tiresias.scheduler.config import MOST_DISCOUNTS, SERVICE_TOLERANCE, PolicyConfig
from tiresias.scheduler.elementwise import Values, interval, pick, smaller, where, whole
from tiresias.scheduler.rank.policy import Rows

_TIMES: Final = tuple(float(times) for times in range(1, MOST_DISCOUNTS + 1))


def is_starving(jobs: Rows, config: PolicyConfig) -> Values:
    """Return whether each job starves."""
    return jobs.ran + SERVICE_TOLERANCE < _waited_in_limits(jobs, config)


def until_starving(jobs: Rows, config: PolicyConfig) -> Values:
    """Return the seconds of waiting after which a job that does not starve may do so."""
    return _waited_in_limits(jobs, config) + config.starve_limit - jobs.waited


def until_served(jobs: Rows, change: Values, now: float, config: PolicyConfig) -> Values:
    """Return when a running job that starves ranks lower again because it has run, if that is before a change."""
    if config.starve_limit == math.inf:
        return change
    limit = config.starve_limit
    if config.starve_factor == math.inf:
        last = now + _waited_in_limits(jobs, config) - jobs.ran
    else:
        last = now + (whole((jobs.ran + SERVICE_TOLERANCE) / limit) + 1.0) * limit - jobs.ran
    return where(is_starving(jobs, config), smaller(change, last), change)


def waiting_discount(jobs: Rows, config: PolicyConfig) -> Values:
    """Return by what the price of each job is multiplied for the whole times of `starve_limit` that it has waited more than run."""
    if config.starve_limit == math.inf or config.starve_factor == math.inf:
        return 1.0
    limit = config.starve_limit
    waited, ran = whole((jobs.waited + SERVICE_TOLERANCE) / limit), whole((jobs.ran + SERVICE_TOLERANCE) / limit)
    return pick(config.starve_discounts, interval(_TIMES, waited - ran))


def waited_in_words(job: Rows, config: PolicyConfig) -> str:
    """Return by what the wait of a job lowers its cost; empty: by nothing."""
    discount = waiting_discount(job, config)
    if discount == 1.0 or config.target_slowdown < math.inf:
        return ""
    return f", counted 1/{1 / discount:,.0f} after {job.waited:,.0f} s of waiting (policy.starve_limit)"


def _waited_in_limits(jobs: Rows, config: PolicyConfig) -> Values:
    """Return the seconds that each job has waited in whole times of `starve_limit`."""
    limit = min(config.starve_limit, sys.float_info.max)
    return whole((jobs.waited + SERVICE_TOLERANCE) / limit) * limit
