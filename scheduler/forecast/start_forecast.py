"""What has to happen for a waiting job to start: who holds the GPUs, what changes that next, and until when at the latest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.protection import protected_until
from tiresias.scheduler.forecast.start_time_bound import StartTimeBound, latest_start
from tiresias.scheduler.model import Bools, JobState, Plan, Row, Snapshot
from tiresias.scheduler.place.free_capacity import Holdings
from tiresias.scheduler.rank.policies import POLICIES

STEPS = 3  # that are told


class ForecastStep(NamedTuple):
    """at: seconds on the snapshot's clock. other: the job that it tells of, where that is another one."""

    at: float
    what: str
    other: str = ""


class StartForecast(NamedTuple):
    """The GPUs of the managed nodes: free; held by jobs ahead of it, by jobs behind it, by those that are not to be preempted now,
    by others than managed jobs, or out of use. steps: what may make room for it by itself, the soonest first."""

    free: int
    ahead: int
    behind: int
    fixed: int
    others: int
    steps: tuple[ForecastStep, ...]
    bound: StartTimeBound


def start_forecast(
    snapshot: Snapshot, plan: Plan, config: PolicyConfig, row: int, queues_before: int = 0
) -> StartForecast:
    """Of the waiting job `row`. queues_before: of other pools (pools.py). O(jobs + nodes)."""
    jobs, held = snapshot.jobs, Holdings(snapshot).gpus()
    holds = jobs.state != JobState.WAITING
    fixed = (jobs.state == JobState.STARTING) | ((jobs.state == JobState.RUNNING) & ~jobs.movable)
    first = plan.rank < plan.rank[row]
    free = int(snapshot.nodes.free["gpus"][snapshot.nodes.usable].sum())
    whose = (holds & ~fixed & first, holds & ~fixed & ~first, holds & fixed)
    ahead, behind, kept = (int(held[who].sum()) for who in whose)
    others = int(snapshot.nodes.gpus.sum()) - free - ahead - behind - kept
    steps = sorted(_steps(snapshot, plan, config, row, holds & ~fixed, queues_before))[:STEPS]
    return StartForecast(free, ahead, behind, kept, others, tuple(steps), latest_start(snapshot, config, row))


def _steps(
    snapshot: Snapshot, plan: Plan, config: PolicyConfig, row: int, movable: Bools, queues_before: int
) -> Iterator[ForecastStep]:
    policy = POLICIES[config.name]
    jobs, now, edges = snapshot.jobs, snapshot.time, (*config.thresholds, math.inf)
    running, queue = movable & (jobs.state == JobState.RUNNING), int(plan.queue[row])
    ahead = running & (plan.rank < plan.rank[row]) & policy.has_queues
    for other in np.flatnonzero(ahead).tolist():
        at = now + (edges[queue] - float(jobs.attained[other])) / int(jobs.gpus[other])
        if now < at < math.inf:
            yield ForecastStep(
                at, f"{_named(snapshot, other)} sinks below Q{queues_before + queue + 1}, if it runs on", jobs.id[other]
            )
    until = protected_until(jobs, config)
    for other in np.flatnonzero(running & (plan.rank > plan.rank[row]) & (until > now)).tolist():
        words = f"{_named(snapshot, other)}, behind it, may be preempted (policy.min_run)"
        yield ForecastStep(float(until[other]), words, jobs.id[other])
    promoted = float(policy.changes(snapshot, config)[row])
    if now < promoted < math.inf:
        yield ForecastStep(promoted, policy.next_change(Row(snapshot.jobs, row), now, config))
    if jobs.packed_until is not None and now < jobs.packed_until[row] < math.inf:
        yield ForecastStep(float(jobs.packed_until[row]), "it takes more nodes than the fewest, too")


def _named(snapshot: Snapshot, row: int) -> str:
    gpus = int(snapshot.jobs.gpus[row])
    return f"job {snapshot.jobs.id[row]} ({gpus} GPU{'s' if gpus > 1 else ''})"
