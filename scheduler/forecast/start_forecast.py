"""The forecast of a waiting job's start: which jobs hold the GPUs, what changes next, and the latest start."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.protection import protected_until
from tiresias.scheduler.forecast.forecast_codes import ForecastCode, ForecastReason
from tiresias.scheduler.forecast.forecast_words import forecast_in_words
from tiresias.scheduler.forecast.start_time_bound import StartTimeBound, latest_start
from tiresias.scheduler.model import Bools, JobState, Plan, Snapshot
from tiresias.scheduler.place.free_capacity import Holdings
from tiresias.scheduler.rank.policies import policy_of
from tiresias.scheduler.rank.policy import Row

STEPS = 3  # of a forecast


class ForecastStep(NamedTuple):
    """A moment at which something changes for the waiting job.

    Attributes:
        at: Seconds on the snapshot's clock.
        what: What changes; `what.job` is the other job that it concerns, if any.
    """

    at: float
    what: ForecastReason


class StartForecast(NamedTuple):
    """When a waiting job starts, and what it waits for.

    Attributes:
        free: Free GPUs of the managed nodes.
        ahead: GPUs of jobs ranked before it.
        lower_ranked: GPUs of jobs ranked after it.
        fixed: GPUs of managed jobs that cannot be preempted now.
        others: GPUs of unmanaged jobs, or out of use.
        steps: What changes for it without a new event, the soonest first.
        bound: Its latest start.
    """

    free: int
    ahead: int
    lower_ranked: int
    fixed: int
    others: int
    steps: tuple[ForecastStep, ...]
    bound: StartTimeBound


def start_forecast(
    snapshot: Snapshot, plan: Plan, config: PolicyConfig, row: int, queues_before: int = 0
) -> StartForecast:
    """Return the forecast of the waiting job `row`. `queues_before`: queues of other pools. O(jobs + nodes)."""
    jobs, held = snapshot.jobs, Holdings(snapshot).gpus()
    holds = jobs.state != JobState.WAITING
    fixed = (jobs.state == JobState.STARTING) | ((jobs.state == JobState.RUNNING) & ~jobs.movable)
    first = plan.rank < plan.rank[row]
    free = int(snapshot.nodes.free["gpus"][snapshot.nodes.usable].sum())
    holders = (holds & ~fixed & first, holds & ~fixed & ~first, holds & fixed)
    ahead, lower_ranked, kept = (int(held[rows].sum()) for rows in holders)
    others = int(snapshot.nodes.gpus.sum()) - free - ahead - lower_ranked - kept
    steps = _steps(snapshot, plan, config, row, holds & ~fixed, queues_before)
    soonest = sorted(steps, key=lambda step: (step.at, forecast_in_words(step.what)))[:STEPS]
    return StartForecast(free, ahead, lower_ranked, kept, others, tuple(soonest), latest_start(snapshot, config, row))


def _steps(
    snapshot: Snapshot, plan: Plan, config: PolicyConfig, row: int, movable: Bools, queues_before: int
) -> Iterator[ForecastStep]:
    policy = policy_of(config)
    jobs, now, edges = snapshot.jobs, snapshot.time, (*config.thresholds, math.inf)
    running, queue = movable & (jobs.state == JobState.RUNNING), int(plan.queue[row])
    ahead = running & (plan.rank < plan.rank[row]) & policy.has_queues
    for other in np.flatnonzero(ahead).tolist():
        at = now + (edges[queue] - float(jobs.attained[other])) / int(jobs.gpus[other])
        if now < at < math.inf:
            gpus = int(jobs.gpus[other])
            sinks = ForecastReason(ForecastCode.SINKS, job=jobs.id[other], gpus=gpus, queue=queues_before + queue)
            yield ForecastStep(at, sinks)
    until = protected_until(jobs, config)
    for other in np.flatnonzero(running & (plan.rank > plan.rank[row]) & (until > now)).tolist():
        reason = ForecastReason(ForecastCode.PREEMPTABLE, job=jobs.id[other], gpus=int(jobs.gpus[other]))
        yield ForecastStep(float(until[other]), reason)
    promoted, job = float(policy.changes(snapshot, config)[row]), Row(snapshot.jobs, row)
    lower_ranked = bool((running & (plan.rank > plan.rank[row])).any())
    if now < promoted < math.inf and (lower_ranked or not policy.permits_preemptions(job, now, config)):
        words = policy.next_change(job, now, config)
        yield ForecastStep(promoted, ForecastReason(ForecastCode.RANK_CHANGES, words))
    if jobs.packed_until is not None and now < jobs.packed_until[row] < math.inf:
        yield ForecastStep(float(jobs.packed_until[row]), ForecastReason(ForecastCode.MORE_NODES))
