"""Where service and times count in a plan by more than the order of the jobs and their protection."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.eviction import releases_by_order
from tiresias.scheduler.evict.protection import TimedJobs
from tiresias.scheduler.model import Bools, Jobs, JobState
from tiresias.scheduler.rank.policy import Policy

_WITH_TIMES = ("seconds_by_size", "servers_by_gpus", "cpus_by_gpus", "seconds_now")  # of jobs whose size can change


def depends_on_order(shown: TimedJobs, config: PolicyConfig, policy: Policy) -> bool:
    """Return whether a plan depends on service and times by the order and the protection of the jobs alone."""
    jobs = shown.jobs
    if not orders_count(jobs, config, policy):
        return False
    return not np.any(policy.drains(jobs, shown.time, config)) and not np.any(waits_for_fewest_nodes(shown))


def orders_count(jobs: Jobs, config: PolicyConfig, policy: Policy) -> bool:
    """Return whether service and times count by the order and the protection of the jobs, for those for which no GPUs are kept free
    and that do not wait for the fewest nodes."""
    plain = config.sizing == "fixed" and config.admission == "shared" and not config.defragment
    plain = plain and releases_by_order(config.eviction, policy.spares)
    return plain and all(getattr(jobs, name) is None for name in _WITH_TIMES)


def waits_for_fewest_nodes(shown: TimedJobs) -> Bools | bool:
    """Return the jobs that wait for the fewest nodes at this moment, shape (jobs,), or False for none."""
    until = shown.jobs.packed_until
    return False if until is None else (shown.jobs.state == JobState.WAITING) & (shown.time < until)
