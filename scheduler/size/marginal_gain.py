"""Sizes of elastic jobs by marginal gain (Optimus, EuroSys '18, section 4.1): resources go where they shorten a job most.

    sizes = allocate(jobs, capacity)     # of each job its servers and workers

Each job gets its minimum, in the given order. Then the job with the largest gain takes the next step of its path: the seconds
by which more workers or servers shorten it, divided by the share of the cluster's dominant resource that they take. (The
paper's equation 9 divides the worker's gain by the server's demand and the other way round; here each is divided by its own.)
A step may add several workers, servers or pairs at once, as one alone may gain nothing, like the first GPU on a second node.

A running job that changes its size is stopped and started again. That is part of the seconds of each size but its current one:

    hysteresis x resize_seconds x max(1, seconds at the current size / horizon)

The last factor leaves what a resize gains after the horizon out of account. Pure. Which of its steps a job takes next depends
on itself alone, so all paths are computed together, and one sort merges them. Few jobs then exchange workers and servers
(`exchange`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.scheduler.size.elastic_jobs import HORIZON_S, HYSTERESIS
from tiresias.scheduler.size.exchange import exchanged

UNCERTAIN_FACTOR = 0.95  # of the gain of a job whose estimates are uncertain
_LONGEST = 8  # workers or servers of a step
_ENDLESS_S = np.finfo(np.float64).max ** 0.5  # for seconds that are inf
_TOLERANCE = 1e-9  # of resources, for sums of floats
_PASSES = 8  # each begins where the last one ended, with the steps that still fit
_MOVES = np.array(
    [move for count in range(1, _LONGEST + 1) for move in ((0, count), (count, 0), (count, count))], np.int64
)  # servers, workers


@dataclass(frozen=True, slots=True, eq=False)
class ElasticJobs:
    """Jobs and what each size would bring them; sizes are pairs (servers, workers), and jobs without servers have 0 of them.

    Attributes:
        seconds: Remaining seconds by size, shape (jobs, servers + 1, workers + 1); inf or nan for an impossible size.
        least, most: The smallest and the largest size, shape (jobs, 2). Of a job that must not be resized any more, its size.
        demands: What a server and a worker take of each resource, shape (jobs, 2, resources).
        current: The size of running jobs, shape (jobs, 2); 0 workers: not running.
        resize_seconds: What a resize costs a running job: save, requeue and restart, shape (jobs,).
        uncertain: Jobs whose estimates are uncertain, shape (jobs,).
    """

    seconds: Floats
    least: Ints
    most: Ints
    demands: Floats
    current: Ints
    resize_seconds: Floats
    uncertain: Bools

    def __len__(self) -> int:
        return len(self.seconds)


class _Steps(NamedTuple):
    """Steps of paths, one row each: the job, the servers and workers that it adds, and its gain; in the order of each path."""

    job: Ints
    added: Ints
    gain: Floats


def allocate(
    jobs: ElasticJobs,
    capacity: Floats,
    horizon: float = HORIZON_S,
    hysteresis: float = HYSTERESIS,
    *,
    exchanges: bool = True,
) -> Ints:
    """Return the size of each job, shape (jobs, 2); (0, 0) where its minimum does not fit any more.

    O(jobs x steps of the longest path + steps x log steps).

    Args:
        jobs: Those of all jobs, the most urgent first.
        capacity: Of each resource, shape (resources,).
        horizon: Seconds over which a resize has to pay.
        hysteresis: How many times its cost a resize has to gain, 0 or more.
        exchanges: Few jobs exchange workers and servers at the end, which takes up to half a second.
    """
    seconds = _with_resize_costs(jobs, horizon, hysteresis)
    first = _Steps(np.arange(len(jobs)), jobs.least, np.zeros(len(jobs)))
    sizes = np.zeros((len(jobs), 2), np.int64)
    free = _take(first, jobs.demands, sizes, capacity.astype(np.float64))
    for _ in range(_PASSES):
        before = sizes.copy()
        free = _take(_merged(_paths(jobs, seconds, sizes, free, capacity)), jobs.demands, sizes, free)
        if (sizes == before).all():
            break
    if not exchanges:
        return sizes
    weights = np.where(jobs.uncertain, UNCERTAIN_FACTOR, 1.0)[:, None, None]
    return exchanged(seconds * weights, jobs.demands, sizes, capacity.astype(np.float64))


def _with_resize_costs(jobs: ElasticJobs, horizon: float, hysteresis: float) -> Floats:
    """Return the seconds of each size, with what it costs to get there, and inf for sizes that are not allowed."""
    rows = np.arange(len(jobs))
    now = jobs.seconds[rows, jobs.current[:, 0], jobs.current[:, 1]]
    running = (jobs.current[:, 1] > 0) & np.isfinite(now)
    now = np.where(running, now, 0.0)
    cost = np.where(running, hysteresis * jobs.resize_seconds * np.maximum(1.0, now / horizon), 0.0)
    seconds = jobs.seconds + cost[:, None, None]
    seconds[rows[running], jobs.current[running, 0], jobs.current[running, 1]] = now[running]
    allowed = np.isfinite(seconds) & _between(jobs.least, jobs.most, seconds.shape)
    return np.where(allowed, seconds, np.inf)


def _between(least: Ints, most: Ints, shape: tuple[int, ...]) -> Bools:
    """Return which sizes are from the least to the most, shape (jobs, servers + 1, workers + 1)."""
    servers, workers = (
        (np.arange(count) >= least[:, side, None]) & (np.arange(count) <= most[:, side, None])
        for side, count in enumerate(shape[1:])
    )
    return np.asarray(servers[:, :, None] & workers[:, None, :])


def _paths(jobs: ElasticJobs, seconds: Floats, sizes: Ints, free: Floats, capacity: Floats) -> _Steps:
    """Return the steps of all jobs from their sizes on, those first that each job takes first."""
    added = np.einsum("ms,jsr->jmr", _MOVES.astype(np.float64), jobs.demands)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(added / capacity, nan=0.0).max(axis=2)  # of the dominant resource
    factor = np.where(jobs.uncertain, UNCERTAIN_FACTOR, 1.0)[:, None] / np.maximum(
        share, np.finfo(np.float64).tiny ** 0.5
    )
    factor = np.where((added <= free).all(axis=2), factor, -1.0)
    active, size, found = np.flatnonzero(sizes[:, 1] > 0), sizes.copy(), []
    while len(active):
        gain = _gains(seconds, factor, active, size)
        best = gain.argmax(axis=1)
        gain = gain[np.arange(len(active)), best]
        active, best, gain = active[gain > 0.0], best[gain > 0.0], gain[gain > 0.0]
        size[active] += _MOVES[best]
        found.append(_Steps(active, _MOVES[best], gain))
    return _Steps(*(np.concatenate(column) for column in zip(*found, strict=True))) if found else _NO_STEPS


_NO_STEPS = _Steps(np.zeros(0, np.int64), np.zeros((0, 2), np.int64), np.zeros(0))


def _gains(seconds: Floats, factor: Floats, active: Ints, size: Ints) -> Floats:
    """Return the gain of each move of each active job, shape (active, moves); below 0 where it is not possible."""
    aim = size[active][:, None, :] + _MOVES[None]
    inside = np.all(aim < seconds.shape[1:], axis=2)
    aim = np.where(inside[:, :, None], aim, 0)
    then = np.where(inside, seconds[active[:, None], aim[:, :, 0], aim[:, :, 1]], np.inf)
    now = seconds[active, size[active, 0], size[active, 1]][:, None]
    gain = np.where(np.isfinite(then), np.where(np.isfinite(now), now, _ENDLESS_S) - then, -1.0)
    return np.where(factor[active] > 0.0, gain * factor[active], -1.0)


def _merged(steps: _Steps) -> _Steps:
    """Return the steps in the order in which the largest gain is next: a step waits for the smallest gain before it on its path."""
    order = np.lexsort((np.arange(len(steps.job)), steps.job))
    job, gain = steps.job[order], steps.gain[order]
    least = gain.copy()
    start = np.flatnonzero(np.diff(job, prepend=-1))
    place = np.arange(len(job)) - np.repeat(start, np.diff(start, append=len(job)))
    for back in range(1, int(place.max(initial=0)) + 1):
        later = np.flatnonzero(place == back)
        least[later] = np.minimum(least[later], least[later - 1])
    order = order[np.lexsort((place, job, -least))]
    return _Steps(steps.job[order], steps.added[order], steps.gain[order])


def _take(steps: _Steps, demands: Floats, sizes: Ints, free: Floats) -> Floats:
    """Add the steps in their order to `sizes` while they fit, and return what remains free.

    After a step that does not fit, the later ones of its job are not taken.
    """
    needs = np.einsum("is,isr->ir", steps.added.astype(np.float64), demands[steps.job])
    fits = np.all(np.cumsum(needs, axis=0) <= free * (1.0 + 1e-9), axis=1)
    fitting = len(fits) if fits.all() else int(fits.argmin())
    free = free - needs[:fitting].sum(axis=0)
    left, later = _one_by_one(steps.job[fitting:].tolist(), needs[fitting:].tolist(), free.tolist())
    taken = np.concatenate((np.ones(fitting, np.bool_), np.array(later, np.bool_)))
    np.add.at(sizes, steps.job[taken], steps.added[taken])
    return np.maximum(np.array(left, np.float64), 0.0)


def _one_by_one(jobs: list[int], needs: list[list[float]], free: list[float]) -> tuple[list[float], list[bool]]:
    """Return what remains free and which steps fit, each with what it needs, after those before it."""
    taken, ended = [], set[int]()
    for job, need in zip(jobs, needs, strict=True):
        rest = free if job in ended else [have - part for have, part in zip(free, need, strict=True)]
        fits = job not in ended and min(rest) >= -_TOLERANCE
        taken.append(fits)
        if fits:
            free = rest
        else:
            ended.add(job)
    return free, taken
