"""Slowdowns beside other jobs, from the seconds a step of runs and the times for which they shared nodes.

A run that shared its nodes with no other one shows the time of a step alone, the median of such runs of its kind with as many GPUs
and nodes. A run that shared them with jobs of one kind shows its slowdown by such jobs. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from tiresias.scheduler.estimates.interference import MOST_SLOWDOWN
from tiresias.scheduler.estimates.step_times import FASTEST_S

SLOWEST_S = 1e6  # seconds a step; a longer one is no measurement
ALONE = 0.05  # jobs beside a run, over its time, up to which it counts as alone
LEAST_ALONE = 2  # runs from which the time alone is known
LEAST_LOAD = 0.3  # jobs of the other kind beside a run, over its time
OWNER_END = "."  # in the name of a kind, which begins with its owner


class NodeRun(NamedTuple):
    """One run of a job.

    Attributes:
        kind: Of the job; "": not known.
        gpus: Its GPUs.
        nodes: Their names.
        start, end: Epoch seconds.
        seconds: Seconds a step; nan: not timed.
        job: The job; "": not known.
    """

    kind: str
    gpus: int
    nodes: tuple[str, ...]
    start: float
    end: float
    seconds: float
    job: str = ""


class CoRunSample(NamedTuple):
    """A run beside jobs of one kind.

    Attributes:
        kind: Of the run.
        other: Kind of the jobs with which it shared nodes.
        load: Jobs of the other kind, each by the part of the run's time for which it was there.
        slowdown: The seconds a step, divided by those alone.
    """

    kind: str
    other: str
    load: float
    slowdown: float


def co_run_samples(runs: Sequence[NodeRun], since: float) -> list[CoRunSample]:
    """Return a sample of each run that has one. O(runs log runs + pairs of runs that share a node at a time).

    Args:
        runs: All runs that shared a node with one that began at `since` or later; others are allowed.
        since: Epoch second; earlier runs show nothing, as runs that shared their nodes may be missing here.
    """
    timed = [at for at, run in enumerate(runs) if run.start >= since and is_measured(run)]
    beside = loads_beside(runs, set(timed))
    alone: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for at in timed:
        if sum(beside[at].values()) <= ALONE:
            alone[_like(runs[at])].append(runs[at].seconds)
    known = {like: median(times) for like, times in alone.items() if len(times) >= LEAST_ALONE}
    found = (_sample(runs[at], beside[at], known.get(_like(runs[at]))) for at in timed)
    return [sample for sample in found if sample]


def owner_of(kind: str) -> str:
    """Return the owner of a kind of jobs."""
    return kind.partition(OWNER_END)[0]


def is_measured(run: NodeRun) -> bool:
    """Return whether the seconds a step of a run are a measurement."""
    return bool(run.kind) and FASTEST_S <= run.seconds <= SLOWEST_S and run.end > run.start


def _like(run: NodeRun) -> tuple[str, int, int]:
    return run.kind, run.gpus, len(run.nodes)


def _sample(run: NodeRun, beside: dict[str, float], alone: float | None) -> CoRunSample | None:
    if alone is None or not beside:
        return None
    other = max(beside, key=beside.__getitem__)
    load, slowdown = beside[other], run.seconds / alone
    is_plain = other and load >= LEAST_LOAD and sum(beside.values()) - load <= ALONE
    is_possible = 1.0 / MOST_SLOWDOWN < slowdown < MOST_SLOWDOWN
    return CoRunSample(run.kind, other, load, slowdown) if is_plain and is_possible else None


def loads_beside(runs: Sequence[NodeRun], shown: set[int]) -> dict[int, dict[str, float]]:
    """Return the load of each of these runs by jobs of each kind: each job by the part of the run's time for which it was there.

    Args:
        runs: All runs.
        shown: The places of those of which the load is returned.
    """
    found: dict[int, dict[str, float]] = {at: defaultdict(float) for at in shown}
    for one, other in set(_pairs(runs)):
        seconds = min(runs[one].end, runs[other].end) - max(runs[one].start, runs[other].start)
        for run, neighbour in ((one, other), (other, one)):
            if run in shown:
                found[run][runs[neighbour].kind] += seconds / (runs[run].end - runs[run].start)
    return found


def _pairs(runs: Sequence[NodeRun]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of runs that share a node at a time, for each such node."""
    on_node: dict[str, list[int]] = defaultdict(list)
    for at in sorted(range(len(runs)), key=lambda at: runs[at].start):
        run = runs[at]
        if not math.isfinite(run.start) or not run.end > run.start:
            continue
        for node in run.nodes:
            there = on_node[node] = [other for other in on_node[node] if runs[other].end > run.start]
            yield from ((other, at) for other in there)
            there.append(at)
