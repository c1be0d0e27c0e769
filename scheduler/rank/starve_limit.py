"""A job that starves: it has waited for `starve_limit` seconds. It goes first, and where it does not fit GPUs are kept free for it.

It does not fit while the GPUs that it needs are held by jobs that may not be preempted yet, as they have just started, or never.
Under a stream of small jobs this may go on for ever. Therefore GPUs are kept free for the first such job: for `drain_limit` seconds
at most from the moment at which it starves, and again after each further `starve_limit` of waiting. So keeping GPUs free costs at
most the share `drain_limit` / `starve_limit` of the GPUs that the job needs.
"""

from __future__ import annotations

from tiresias.scheduler.config import SERVICE_TOLERANCE, PolicyConfig
from tiresias.scheduler.elementwise import Values, smaller, where
from tiresias.scheduler.rank.policy import Rows


def starves(jobs: Rows, now: float) -> Values:
    """Return whether a job was promoted and has not run since.

    It goes before all other jobs of the first queue, running ones too: ranked after them it could wait for ever, as small jobs that
    arrive later fit into the GPUs that become free. A job that starts at this very moment still counts; otherwise two such jobs
    would preempt each other without end.
    """
    promoted = now - jobs.ran - jobs.waited
    return (jobs.ran <= SERVICE_TOLERANCE) & (promoted > jobs.submit + 1.0)


def may_drain(since: Values, config: PolicyConfig) -> Values:
    """Whether GPUs may be kept free now for a job that has been starving for `since` seconds."""
    return _turn(since, config) < config.drain_limit


def until_change(since: Values, config: PolicyConfig) -> Values:
    """Seconds until `may_drain` is another one."""
    turn = _turn(since, config)
    begins, ends = config.starve_limit - turn, smaller(config.drain_limit, config.starve_limit) - turn
    return where(turn < config.drain_limit, ends, begins) + SERVICE_TOLERANCE


def next_change(kept: bool) -> str:
    """What `until_change` counts to, in words. kept: whether GPUs may be kept free for the job now."""
    return "GPUs are no longer kept free for it" if kept else "GPUs are kept free for it again"


def _turn(since: Values, config: PolicyConfig) -> Values:
    return (since + 2 * SERVICE_TOLERANCE) % config.starve_limit
