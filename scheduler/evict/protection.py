"""From when a running job may be preempted: it has to make progress first.

The minimum run time of a job is `min_run`, or `min_run_cost_factor` times what a preemption costs the job where that is more. It
counts from the first step after the start, so that a slow start does not use it up. Both the first step and the cost are reported
by jobs. Therefore `protection_limit` bounds what each of them adds: a job that reports too much, or nothing, is protected for at
most 2 x `protection_limit` seconds more than `min_run`.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values, known, larger, smaller
from tiresias.scheduler.model import Bools, Floats, Jobs, JobState, Snapshot

_RUNNING = int(JobState.RUNNING)  # compares faster


class TimedJobs(Protocol):
    """Jobs at a moment: a snapshot, or a part of one."""

    @property
    def time(self) -> float:
        """Epoch seconds."""

    @property
    def jobs(self) -> Jobs:
        """The jobs."""


def minimum(config: PolicyConfig, cost: Values) -> Values:
    """Seconds of progress before a job may be preempted. cost: seconds that a preemption costs it, nan where that is not known."""
    by_cost = config.min_run_cost_factor * known(cost, config.preemption_cost)
    return larger(config.min_run, smaller(by_cost, config.protection_limit))


def first_step(start: Values, steps_from: Values, config: PolicyConfig) -> Values:
    """The moment from which a run that began at `start` counts as making progress. steps_from: as reported, nan: not known."""
    return smaller(larger(known(steps_from, start), start), start + config.protection_limit)


def protected_until(jobs: Jobs, config: PolicyConfig) -> Floats:
    """From when on each job may be preempted, as far as its run time matters; shape (jobs,), nan for a job that never ran."""
    start = jobs.last_start
    costs = math.nan if jobs.preemption_cost is None else jobs.preemption_cost
    steps = start if jobs.progress_from is None else first_step(start, jobs.progress_from, config)
    needed = minimum(config, costs)
    until: Floats = np.where(needed > 0, steps + needed, start)
    return until


def is_protected(shown: TimedJobs, config: PolicyConfig) -> Bools:
    """Running jobs whose minimum run time is not reached; shape (jobs,)."""
    jobs = shown.jobs
    protected: Bools = (jobs.state == _RUNNING) & (shown.time < protected_until(jobs, config))
    return protected


def remaining(snapshot: Snapshot, config: PolicyConfig) -> Floats:
    """Seconds until each running job has reached its minimum run time, 0 for all other jobs; shape (jobs,)."""
    left = protected_until(snapshot.jobs, config) - snapshot.time
    seconds: Floats = np.where(is_protected(snapshot, config), left, 0.0)
    return seconds
