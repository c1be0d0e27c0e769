"""The latest moment at which a waiting job starts: an upper bound, where there is one.

Under LAS a job waits only while jobs of its own queue and of higher queues hold so many GPUs that no nodes fit it. Each of these
jobs counts only until it has attained the service at which it sinks below that queue. So the wait is at most the service that all
of them still lack, divided by the number of GPUs that must be held to keep the job waiting. The order in which they run and end
does not matter; a job that ends early only lacks less. Below the last threshold no job sinks: there a bound follows from promotion,
or there is none.

The bound holds as long as no more jobs arrive, no node fails, no reservation begins, and preempted jobs release their GPUs in time.
It does not contain the seconds that saves and starts take, and the minimum run time of jobs that start earlier. O(jobs + nodes).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.admit.quotas import free_only, obstacle
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.protection import remaining
from tiresias.scheduler.forecast.forecast_codes import ForecastCode, ForecastReason
from tiresias.scheduler.model import Floats, JobState, Request, Snapshot
from tiresias.scheduler.place.free_capacity import CPUS, GPUS, MEMORY, Holdings, free
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.rank.las_order import queue_of
from tiresias.scheduler.rank.policies import policy_of
from tiresias.scheduler.rank.policy import Policy, Row

_ROUNDS = 1000  # of promotions, each of which may allow further promotions


class StartTimeBound(NamedTuple):
    """The latest start of a waiting job.

    Attributes:
        at: Seconds on the snapshot's clock; inf: there is no bound.
        why: What it follows from, or why there is none.
    """

    at: float
    why: ForecastReason


def latest_start(snapshot: Snapshot, config: PolicyConfig, row: int) -> StartTimeBound:
    """Return the latest start of the waiting job `row`."""
    policy = policy_of(config)
    if (why := _why_slurm_decides(snapshot, row)) is not None:
        return StartTimeBound(math.inf, why)
    if not policy.has_queues:
        return StartTimeBound(math.inf, _without_queues(policy, Row(snapshot.jobs, row), config))
    held = must_be_held(snapshot, row)
    if not held:
        return StartTimeBound(math.inf, ForecastReason(ForecastCode.FIXED_JOBS))
    wait = _Wait(snapshot, config, row, held)
    return min(wait.bounds(), key=lambda bound: bound.at)


def _without_queues(policy: Policy, job: Row, config: PolicyConfig) -> ForecastReason:
    first, higher = policy.first_after(job, config), policy.higher_after(job, config)
    return ForecastReason(
        ForecastCode.NO_QUEUES, config.name, seconds=first, amount=higher if higher < math.inf else 0.0
    )


def _why_slurm_decides(snapshot: Snapshot, row: int) -> ForecastReason | None:
    """Return why a rule of Slurm's, for which there is no bound, may keep the job waiting; None where none does."""
    jobs = snapshot.jobs
    if not jobs.eligible[row]:
        words = obstacle(jobs, row)
        return ForecastReason(ForecastCode.BLOCKED_BY_SLURM if words else ForecastCode.NOT_ELIGIBLE, words)
    if free_only(jobs)[row]:
        return ForecastReason(ForecastCode.REFUSED_BY_SLURM, obstacle(jobs, row))
    limits = (quota.reason for quota in snapshot.quotas if row in quota.amounts)
    return next((ForecastReason(ForecastCode.SLURM_LIMIT, reason) for reason in limits), None)


class _Wait:
    def __init__(self, snapshot: Snapshot, config: PolicyConfig, row: int, held: int) -> None:
        self._jobs, self._config, self._row, self._held = snapshot.jobs, config, row, held
        self._now, self._total = snapshot.time, int(snapshot.nodes.gpus.sum())
        packed = -math.inf if snapshot.jobs.packed_until is None else float(snapshot.jobs.packed_until[row])
        self._packed_s = max(packed - snapshot.time, 0.0)  # for so long it may wait for fewer nodes
        self._queue = queue_of(snapshot.jobs.attained, config)
        self._protected = np.where(snapshot.jobs.movable, remaining(snapshot, config), 0.0)

    def bounds(self) -> Iterator[StartTimeBound]:
        queue = int(self._queue[self._row])
        if queue and self._config.promotes:
            yield self._once_promoted()
        if queue < len(self._config.thresholds):
            yield self._bound(queue, 0.0)
        else:
            yield StartTimeBound(math.inf, ForecastReason(ForecastCode.LAST_QUEUE))

    def _once_promoted(self) -> StartTimeBound:
        wait = max(float(self._wait_limit_s(self._jobs.ran)[self._row] - self._jobs.waited[self._row]), 0.0)
        return self._bound(0, wait, promoted_s=wait)

    def _bound(self, queue: int, begin: float, promoted_s: float = math.inf) -> StartTimeBound:
        limit = self._config.thresholds[queue]
        lack = float(self._lacks(limit).sum())
        begin = max(begin, self._packed_s, float(np.max(self._protected[self._queue > queue], initial=0.0)))
        wait = self._settled(lack, limit, begin)
        if wait == math.inf:
            return StartTimeBound(math.inf, ForecastReason(ForecastCode.PROMOTIONS))
        why = ForecastReason(ForecastCode.SERVICE, gpus=self._held, queue=queue, amount=lack, seconds=promoted_s)
        return StartTimeBound(self._now + wait, why)

    def _lacks(self, limit: float) -> Floats:
        """GPU-seconds until each other job sinks below the queue that ends there, and may be preempted."""
        lack = np.maximum(limit - self._jobs.attained, 0.0)
        lack = np.where(lack > 0, np.maximum(lack, self._jobs.gpus * self._protected), 0.0)
        lack[self._jobs.gpus > self._total] = 0.0  # never runs
        lack[self._row] = 0.0
        return lack

    def _settled(self, lack: float, limit: float, begin: float) -> float:
        """Return the wait in seconds. Promoted jobs go before the job again: the longer it waits, the more promotions happen."""
        wait, last = begin + lack / self._held, -1.0
        for _ in range(_ROUNDS):
            if wait == last or wait == math.inf:
                return wait
            promotions = self._promotions(wait)
            last, wait = wait, begin + (lack + limit * promotions) / self._held + self._drains(promotions)
        return math.inf

    def _drains(self, promotions: float) -> float:
        """Return the seconds for which GPUs may be kept free for promoted jobs."""
        return self._config.drain_limit * promotions if self._config.starving_first else 0.0

    def _promotions(self, seconds: float) -> float:
        """Return how many promotions other jobs can have within so many seconds, counted as if each of them only waited."""
        if not self._config.promotes:
            return 0.0
        full = self._config.thresholds[0] / self._jobs.gpus  # seconds in which a job sinks out of the first queue
        ran = np.where(self._queue > 0, self._jobs.ran, np.maximum(self._jobs.ran, full))
        first = self._wait_limit_s(ran) - self._jobs.waited
        again = self._wait_limit_s(full)
        count = np.where(seconds >= first, 1 + np.floor((seconds - np.maximum(first, 0.0)) / again), 0.0)
        count[self._row] = 0.0
        return float(count.sum())

    def _wait_limit_s(self, ran: Floats) -> Floats:
        """Return the seconds of waiting after which a job that has run for so long is promoted."""
        return np.minimum(self._config.promote_knob * np.maximum(ran, 1e-3), self._config.starve_limit)


def must_be_held(snapshot: Snapshot, row: int) -> int:
    """Return the least number of GPUs that other jobs must hold so that no nodes fit the job; 0: none may fit even if all are free.

    It is counted on what is free and what preemptable jobs hold. A node no longer fits the job once other jobs there leave too few
    GPUs, CPUs or too little memory; each of their GPUs is counted with the largest request per GPU of all jobs.
    """
    jobs, placer = snapshot.jobs, Placer(snapshot)
    request, gpus = jobs.request[row], int(jobs.gpus[row])
    demand = placer.kind(request).demand
    if demand.islands:
        return 0
    goes = (jobs.state == JobState.RELEASING) | ((jobs.state == JobState.RUNNING) & jobs.movable)
    amount = free(snapshot.nodes) + Holdings(snapshot).on_nodes(np.flatnonzero(goes))
    amount = amount[demand.allowed]
    each, nodes = _shape(request, gpus)
    if not nodes:
        return _to_take_all_but(gpus, amount, request, jobs.request)
    spoiled = np.sort(_to_spoil(each, amount, request, jobs.request))
    return int(spoiled[: max(len(spoiled) - nodes + 1, 0)].sum())


def _shape(request: Request, gpus: int) -> tuple[int, int]:
    """Return GPUs on each node and the number of nodes that are enough for the job; no nodes: any GPUs are enough."""
    if request.gpus_per_node:
        return request.gpus_per_node, gpus // request.gpus_per_node
    nodes = request.max_nodes or (request.min_nodes if request.min_nodes > 1 else 0)
    return (-(-gpus // nodes), nodes) if nodes else (1, 0)


def _to_spoil(each: int, amount: Floats, mine: Request, others: tuple[Request, ...]) -> Floats:
    """Return the GPUs of each node that other jobs must hold so that fewer than `each` remain for the job; shape (nodes,)."""
    spoiled = amount[:, GPUS] - each + 1
    for column, need, hunger in _other_resources(mine, each, others):
        spare = amount[:, column] - need
        spoiled = np.minimum(spoiled, np.floor(spare / hunger) + 1 if hunger else np.where(spare < 0, 0.0, np.inf))
    return np.maximum(np.ceil(spoiled), 0.0)


def _to_take_all_but(gpus: int, amount: Floats, mine: Request, others: tuple[Request, ...]) -> int:
    """Return the GPUs that other jobs must hold so that the job has too few on all nodes together.

    0, no bound, where a single GPU of another job could make a whole node unusable, by the memory that the job needs on each.
    """
    if mine.memory_per_node and (_to_spoil(1, amount, mine, others) < amount[:, GPUS]).any():
        return 0
    fits, worth = amount[:, GPUS], 1.0  # GPUs that a GPU of another job takes from the job
    for column, need, hunger in _other_resources(replace(mine, memory_per_node=0.0), 1, others):
        fits = np.minimum(fits, np.floor(amount[:, column] / need + 1e-9)) if need else fits
        worth = max(worth, np.ceil(hunger / need) if need else 1.0)
    return max(math.ceil((float(fits.sum()) - gpus + 1) / float(worth)), 0)


def _other_resources(mine: Request, each: int, others: tuple[Request, ...]) -> list[tuple[int, float, float]]:
    """Return, for CPUs and for memory, the column, the job's need for `each` GPUs on a node, and the most per GPU of any job."""
    memory = mine.memory_per_node or mine.memory_per_gpu * each
    kinds = set(others)
    return [
        (CPUS, mine.cpus_per_gpu * each, max(one.cpus_per_gpu for one in kinds)),
        (MEMORY, memory, max(one.memory_per_node or one.memory_per_gpu for one in kinds)),
    ]
