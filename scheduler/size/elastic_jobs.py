"""Elastic jobs: the sizes that they can have, and when a running one changes its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.protection import is_protected
from tiresias.scheduler.model import Bools, Effect, Floats, Ints, Jobs, JobState, Plan, Resize, Snapshot
from tiresias.scheduler.size.predicted_seconds import present_seconds, seconds_left
from tiresias.scheduler.size.server_choice import with_gpus

HORIZON_S = 3600.0  # in which a change of size must gain what it costs
RETURN_S = 10.0  # from the end of a run within which a preempted job may start again
HYSTERESIS = 1.5  # where there is a prediction, a change of size must gain so many times what it costs


def is_elastic(jobs: Jobs) -> Bools:
    """Return the jobs whose size can change, shape (jobs,)."""
    return np.zeros(len(jobs), np.bool_) if jobs.gpu_step is None else jobs.gpu_step > 0


def can_change(jobs: Jobs) -> Bools:
    """Return the jobs whose size a decision may choose, shape (jobs,): elastic ones that wait, may be preempted, or are.

    One that is being preempted starts again: without it, the others would get its GPUs, and give them back a moment later.
    """
    chosen = (jobs.state == JobState.WAITING) | (jobs.state == JobState.RELEASING) | jobs.movable
    return np.asarray(is_elastic(jobs) & chosen)


def comes_back(snapshot: Snapshot) -> Bools:
    """Return the elastic jobs that wait between two runs and start again at once, shape (jobs,)."""
    jobs = snapshot.jobs
    waits = is_elastic(jobs) & (jobs.state == JobState.WAITING) & ~jobs.eligible
    blocked = (
        np.array([bool(one) for one in jobs.obstacle], np.bool_) if jobs.obstacle else np.zeros(len(jobs), np.bool_)
    )
    return np.asarray(waits & ~blocked & (snapshot.time - jobs.preempted < RETURN_S))


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
    return replace(snapshot, jobs=with_gpus(jobs, np.where(stuck, least, jobs.gpus)))


def resizes(
    snapshot: Snapshot,
    sizes: Ints,
    plan: Plan,
    config: PolicyConfig,
    weighs_cost: bool = True,
    sampled: Bools | None = None,
) -> Iterator[Resize]:
    """Yield the changes of running jobs that go on to other sizes.

    A job gets more GPUs where that gains more than the change costs, or that is not weighed. Jobs get fewer for eligible ones that
    wait, and for those that get more where there are predictions: as few jobs as suffice. A job that keeps its GPUs gets another
    number of parameter servers by the same rule, if costs are weighed: its next start has the number that is predicted to be
    best. A job whose size is a sample gets it. No job changes before its minimum run time.

    Args:
        snapshot: Jobs, nodes and allocations.
        sizes: The GPUs that the sizing found for each job, shape (jobs,).
        plan: The plan.
        config: The configuration of the stages.
        weighs_cost: Whether a job gets more GPUs only where that pays.
        sampled: The jobs whose size is a sample, shape (jobs,); None: none.
    """
    jobs = snapshot.jobs
    may = is_elastic(jobs) & (jobs.state == JobState.RUNNING) & jobs.movable & (plan.effect == Effect.KEEP)
    may &= ~is_protected(snapshot, config)
    if sampled is not None:
        for row in np.flatnonzero(may & sampled & (sizes != jobs.gpus)).tolist():
            yield Resize(jobs.id[row], int(sizes[row]), is_sample=True)
        may &= ~sampled
    waiting = (jobs.state == JobState.WAITING) & jobs.eligible & (plan.effect == Effect.WAIT)
    grows, recounts = may & (sizes > jobs.gpus), np.zeros(len(jobs), np.bool_)
    if weighs_cost:
        costs, now = preemption_costs(jobs, config), present_seconds(jobs)
        grows &= _pays(jobs, now, sizes, costs)
        recounts = may & _pays(jobs, now, jobs.gpus, costs)
    needed = int(sizes[waiting].sum())
    if jobs.seconds_by_size is not None:
        needed += int((sizes - jobs.gpus)[grows].sum())
    shrinks = _enough(np.where(may, jobs.gpus - sizes, 0), needed)
    chosen = np.where(grows | shrinks, sizes, jobs.gpus)
    for row in np.flatnonzero(grows | shrinks | recounts).tolist():
        yield Resize(jobs.id[row], int(chosen[row]))


def _enough(freed: Ints, needed: int) -> Bools:
    """Return the jobs that together free so many GPUs, those that free most first, shape (jobs,); all where they do not suffice.

    Args:
        freed: GPUs that each job frees, not above 0 where it frees none, shape (jobs,).
        needed: GPUs.
    """
    order = np.argsort(-freed, kind="stable")
    before = np.cumsum(freed[order]) - freed[order]
    chosen = np.zeros(len(freed), np.bool_)
    chosen[order] = (freed[order] > 0) & (before < needed)
    return chosen


def _pays(jobs: Jobs, now: Floats, sizes: Ints, cost: Floats) -> Bools:
    """Return whether another size gains more than the change costs within `HORIZON_S`.

    The gain is the predicted one, which must be HYSTERESIS times the cost, as in `marginal_gain`. Without a prediction the speed is
    taken to be proportional to the GPUs, and the job to run as long again as it ran, as is expected of heavy-tailed run times.

    Args:
        jobs: The jobs.
        now: Predicted seconds left with the present size, nan: not known, shape (jobs,).
        sizes: Their GPUs afterwards, shape (jobs,).
        cost: Seconds that a change costs, shape (jobs,).
    """
    then = seconds_left(jobs, sizes)
    proportional = np.minimum(HORIZON_S, jobs.ran) * (1.0 - jobs.gpus / np.maximum(sizes, 1)) > cost
    predicted = now - then > HYSTERESIS * cost * np.maximum(1.0, now / HORIZON_S)
    return np.where(np.isnan(now) | np.isnan(then), proportional, predicted)


def preemption_costs(jobs: Jobs, config: PolicyConfig) -> Floats:
    """Return the seconds that a preemption of each job costs, as measured, else by the configuration, shape (jobs,)."""
    if jobs.preemption_cost is None:
        return np.full(len(jobs), config.preemption_cost)
    return np.where(np.isnan(jobs.preemption_cost), config.preemption_cost, jobs.preemption_cost)
