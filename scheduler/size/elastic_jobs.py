"""Elastic jobs: the sizes that they can have, and when a running one changes its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Bools, Effect, Floats, Ints, Jobs, JobState, Plan, Resize, Snapshot

HORIZON_S = 3600.0  # in which a change of size must gain what it costs


def is_elastic(jobs: Jobs) -> Bools:
    """Return the jobs whose size can change, shape (jobs,)."""
    return np.zeros(len(jobs), np.bool_) if jobs.gpu_step is None else jobs.gpu_step > 0


def least_sizes(jobs: Jobs) -> Ints:
    """Return the fewest GPUs of each job, shape (jobs,)."""
    return jobs.gpus - _steps_to(jobs, jobs.min_gpus, -1)


def most_sizes(jobs: Jobs) -> Ints:
    """Return the most GPUs of each job, shape (jobs,)."""
    return jobs.gpus + _steps_to(jobs, jobs.max_gpus, 1)


def is_size(jobs: Jobs, row: int, gpus: int) -> bool:
    """Return whether an elastic job can have so many GPUs."""
    assert jobs.gpu_step is not None
    least, most = least_sizes(jobs)[row], most_sizes(jobs)[row]
    return bool(least <= gpus <= most and (gpus - jobs.gpus[row]) % jobs.gpu_step[row] == 0)


def _steps_to(jobs: Jobs, limit: Ints | None, sign: int) -> Ints:
    """Return the GPUs from the present size to the last one within a limit."""
    if jobs.gpu_step is None or limit is None:
        return np.zeros(len(jobs), np.int64)
    step = np.maximum(jobs.gpu_step, 1)
    found: Ints = np.where(jobs.gpu_step > 0, np.maximum(sign * (limit - jobs.gpus), 0) // step * step, 0)
    return found


def at_least_size(snapshot: Snapshot, plan: Plan) -> Snapshot | None:
    """Return the snapshot with the fewest GPUs for the elastic jobs that do not start at their size; None without such jobs."""
    jobs = snapshot.jobs
    stuck = is_elastic(jobs) & (jobs.state == JobState.WAITING) & jobs.eligible & (plan.effect == Effect.WAIT)
    least = least_sizes(jobs)
    if not (stuck & (least < jobs.gpus)).any():
        return None
    return replace(snapshot, jobs=replace(jobs, gpus=np.where(stuck, least, jobs.gpus)))


def resizes(snapshot: Snapshot, sizes: Ints, plan: Plan, config: PolicyConfig) -> Iterator[Resize]:
    """Yield the changes of running jobs that go on to other sizes.

    A job gets fewer GPUs where an eligible job waits, and more where that gains more than the change costs within `HORIZON_S`, if
    its speed is proportional to its GPUs.

    Args:
        snapshot: Jobs, nodes and allocations.
        sizes: The GPUs that the sizing found for each job, shape (jobs,).
        plan: The plan.
        config: The configuration of the stages.
    """
    jobs = snapshot.jobs
    may = is_elastic(jobs) & (jobs.state == JobState.RUNNING) & jobs.movable & (plan.effect == Effect.KEEP)
    others_wait = bool(((jobs.state == JobState.WAITING) & jobs.eligible & (plan.effect == Effect.WAIT)).any())
    gains = HORIZON_S * (1.0 - jobs.gpus / np.maximum(sizes, 1)) > _cost(jobs, config)
    for row in np.flatnonzero(may & np.where(sizes < jobs.gpus, others_wait, gains)).tolist():
        yield Resize(jobs.id[row], int(sizes[row]))


def _cost(jobs: Jobs, config: PolicyConfig) -> Floats:
    """Return the seconds that a preemption of each job costs."""
    if jobs.preemption_cost is None:
        return np.full(len(jobs), config.preemption_cost)
    return np.where(np.isnan(jobs.preemption_cost), config.preemption_cost, jobs.preemption_cost)
