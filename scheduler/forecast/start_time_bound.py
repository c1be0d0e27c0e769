"""The latest moment at which a waiting job starts: an upper bound, where there is one.

Under LAS a job waits only while jobs of its own queue and of those above hold so many GPUs that it finds no place on its nodes.
Each of them can do so only until it has had the service at which it sinks below that queue. So together they keep the job out no
longer than it takes to hand out the service that they all lack to that, on as many GPUs as must be held to keep it out. Neither the
order in which they run nor who of them ends when matters; a job that ends only lacks less. Below the last threshold nothing sinks
any more: there a bound comes from promotion, or not at all.

It holds as long as no more jobs come, no node fails, no reservation begins, and those behind leave when they are to. Not in it are
the seconds that saves and starts take, and the minimum run time of jobs that start before it. O(jobs + nodes).
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
from tiresias.scheduler.rank.policies import POLICIES

_ROUNDS = 1000  # of promotions that make room for more promotions


class StartTimeBound(NamedTuple):
    """The latest start of a waiting job.

    Attributes:
        at: Seconds on the snapshot's clock; inf: there is no bound.
        why: What it follows from, or why there is none.
    """

    at: float
    why: ForecastReason


def latest_start(snapshot: Snapshot, config: PolicyConfig, row: int) -> StartTimeBound:
    """Of the waiting job `row`."""
    policy = POLICIES[config.name]
    if (why := _why_slurm_decides(snapshot, row)) is not None:
        return StartTimeBound(math.inf, why)
    if not policy.has_queues:
        first_after_s = policy.first_after(config) - float(snapshot.jobs.waited[row])
        return StartTimeBound(math.inf, ForecastReason(ForecastCode.NO_QUEUES, config.name, seconds=first_after_s))
    held = must_be_held(snapshot, row)
    if not held:
        return StartTimeBound(math.inf, ForecastReason(ForecastCode.FIXED_JOBS))
    wait = _Wait(snapshot, config, row, held)
    return min(wait.bounds(), key=lambda bound: bound.at)


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
        self._patience = max(packed - snapshot.time, 0.0)  # until then it may wait for fewer nodes
        self._queue = config.queue_of(snapshot.jobs.attained)
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
        wait = max(float(self._patience_of(self._jobs.ran)[self._row] - self._jobs.waited[self._row]), 0.0)
        return self._bound(0, wait, promoted_s=wait)

    def _bound(self, queue: int, begin: float, promoted_s: float = math.inf) -> StartTimeBound:
        limit = self._config.thresholds[queue]
        lack = float(self._lacks(limit).sum())
        begin = max(begin, self._patience, float(np.max(self._protected[self._queue > queue], initial=0.0)))
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
        """Seconds. Promoted jobs go before it once more: the longer it takes the more of them do."""
        wait, last = begin + lack / self._held, -1.0
        for _ in range(_ROUNDS):
            if wait == last or wait == math.inf:
                return wait
            promotions = self._promotions(wait)
            last, wait = wait, begin + (lack + limit * promotions) / self._held + self._drains(promotions)
        return math.inf

    def _drains(self, promotions: float) -> float:
        """Seconds for which GPUs may be kept free for promoted jobs."""
        return self._config.drain_limit * promotions if self._config.starving_first else 0.0

    def _promotions(self, seconds: float) -> float:
        """How many promotions others can have by then, counted as if each did nothing but wait."""
        if not self._config.promotes:
            return 0.0
        full = self._config.thresholds[0] / self._jobs.gpus  # seconds in which a job sinks out of the first queue
        ran = np.where(self._queue > 0, self._jobs.ran, np.maximum(self._jobs.ran, full))
        first = self._patience_of(ran) - self._jobs.waited
        again = self._patience_of(full)
        count = np.where(seconds >= first, 1 + np.floor((seconds - np.maximum(first, 0.0)) / again), 0.0)
        count[self._row] = 0.0
        return float(count.sum())

    def _patience_of(self, ran: Floats) -> Floats:
        return np.minimum(self._config.promote_knob * np.maximum(ran, 1e-3), self._config.starve_limit)


def must_be_held(snapshot: Snapshot, row: int) -> int:
    """GPUs at least that others must hold so that the job finds no nodes; 0: it may find none although nobody holds any.

    Counted on what is free and what running jobs can be made to leave. A node is of no use to the job once those who hold GPUs
    there leave too few of them, or too few CPUs or too little memory, of which they have as much a GPU as the hungriest job.
    """
    jobs, placer = snapshot.jobs, Placer(snapshot.nodes)
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
    """So many GPUs on each of so many nodes are enough for it; no nodes: any GPUs are."""
    if request.gpus_per_node:
        return request.gpus_per_node, gpus // request.gpus_per_node
    nodes = request.max_nodes or (request.min_nodes if request.min_nodes > 1 else 0)
    return (-(-gpus // nodes), nodes) if nodes else (1, 0)


def _to_spoil(each: int, amount: Floats, mine: Request, others: tuple[Request, ...]) -> Floats:
    """GPUs of each node that others must hold so that it has less than `each` for the job; shape (nodes,)."""
    spoiled = amount[:, GPUS] - each + 1
    for column, need, hunger in _beside(mine, each, others):
        spare = amount[:, column] - need
        spoiled = np.minimum(spoiled, np.floor(spare / hunger) + 1 if hunger else np.where(spare < 0, 0.0, np.inf))
    return np.maximum(np.ceil(spoiled), 0.0)


def _to_take_all_but(gpus: int, amount: Floats, mine: Request, others: tuple[Request, ...]) -> int:
    """GPUs that others must hold so that the job has fewer than it needs on all nodes together. Where one of theirs could cost it a
    whole node, by the memory that it needs on each, nothing is known."""
    if mine.memory_per_node and (_to_spoil(1, amount, mine, others) < amount[:, GPUS]).any():
        return 0
    fits, worth = amount[:, GPUS], 1.0  # GPUs that a GPU of others takes from the job
    for column, need, hunger in _beside(replace(mine, memory_per_node=0.0), 1, others):
        fits = np.minimum(fits, np.floor(amount[:, column] / need + 1e-9)) if need else fits
        worth = max(worth, np.ceil(hunger / need) if need else 1.0)
    return max(math.ceil((float(fits.sum()) - gpus + 1) / float(worth)), 0)


def _beside(mine: Request, each: int, others: tuple[Request, ...]) -> list[tuple[int, float, float]]:
    """CPUs and memory: the column, what the job needs of it beside so many GPUs on a node, and the most that others have a GPU."""
    memory = mine.memory_per_node or mine.memory_per_gpu * each
    kinds = set(others)
    return [
        (CPUS, mine.cpus_per_gpu * each, max(one.cpus_per_gpu for one in kinds)),
        (MEMORY, memory, max(one.memory_per_node or one.memory_per_gpu for one in kinds)),
    ]
