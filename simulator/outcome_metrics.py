"""Metrics of an outcome: the keys of `tiresias simulate --json`, and values over time. Pure; times in seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.contention.contention_tracker import JobSlowdowns
from tiresias.simulator.outcome import Outcome, Timeline
from tiresias.simulator.trace import Trace

Summary = dict[str, float]

RATIOS = ("mean_jct", "median_jct", "p95_jct", "p99_jct", "max_jct", "mean_queueing", "makespan")


def summary(trace: Trace, cluster: ClusterSize, outcome: Outcome, wall_seconds: float) -> Summary:
    """Return the metrics of an outcome by name.

    Queueing is all the time of a job in which it made no progress; of an elastic job, all the time without GPUs.
    gpu_utilization is GPU-seconds of work / (GPUs x makespan).
    preemption_gpu_seconds are those on GPUs without progress, because of preemptions; lost_gpu_seconds are of work that failures
    undid. Work is that at the requested size; resizes are there where jobs are elastic. The mean slowdowns are there where jobs
    slow each other: 1.2 by interference means that a job took 20% more time because of others on its servers, in the mean of jobs.
    """
    makespan = float(outcome.finish.max() - trace.submit[0])
    median, p95, p99 = np.percentile(outcome.jct, (50, 95, 99)).tolist()
    return {
        "mean_jct": float(outcome.jct.mean()),
        "median_jct": median,
        "p95_jct": p95,
        "p99_jct": p99,
        "max_jct": float(outcome.jct.max()),
        "makespan": makespan,
        "mean_queueing": float(queueing(trace, outcome).mean()),
        "preemptions": int(outcome.preemptions.sum()),
        "preemption_gpu_seconds": outcome.overhead,
        "lost_gpu_seconds": outcome.lost,
        "gpu_utilization": float(trace.gpus @ trace.duration) / (cluster.gpus * makespan) if makespan else 0.0,
        "jobs": len(trace),
        "decisions": outcome.decisions,
        "wall_seconds": wall_seconds,
        **({"resizes": int(outcome.resizes.sum())} if len(outcome.resizes) else {}),
        **(_slowdowns(outcome.slowdowns) if outcome.slowdowns else {}),
        **outcome.memory,
    }


def _slowdowns(found: JobSlowdowns) -> Summary:
    """Return the means over the jobs; a job without work counts as one that nothing slows."""
    interference, network = (float(np.nan_to_num(each, nan=1.0).mean()) for each in found)
    return {"mean_interference_slowdown": interference, "mean_network_slowdown": network}


def queueing(trace: Trace, outcome: Outcome) -> Floats:
    """Return the seconds of each job without progress, shape (jobs,).

    Of an elastic job those without GPUs: the known duration is that with the GPUs of its request, and it may work faster.
    """
    delay: Floats = outcome.jct - trace.duration
    if len(outcome.held):
        is_elastic = [sizes is not None for sizes in trace.elastic]
        delay = np.where(is_elastic, outcome.jct - outcome.held, delay)
    return delay


def waiting(delay: Floats, percentile: float) -> Summary:
    """Return mean and one percentile of the waits of some jobs, seconds: `mean`, and for example `p99`."""
    return {"mean": float(delay.mean()), f"p{percentile:g}": float(np.percentile(delay, percentile))}


def by_virtual_cluster(trace: Trace, outcome: Outcome) -> dict[str, Summary]:
    """Return jobs, mean and 99th percentile of queueing, and mean JCT of each virtual cluster of the trace, by name."""
    names, cluster = np.unique(trace.vc, return_inverse=True)
    delay = queueing(trace, outcome)
    return {
        str(name): _of_jobs(delay[cluster == at], outcome.jct[cluster == at]) for at, name in enumerate(names.tolist())
    }


def by_owner(owner: Ints, trace: Trace, outcome: Outcome) -> Summary:
    """Return how equally the owners of the jobs are served.

    The slowdown of an owner is the sum of its jobs' completion times over that of their durations: 1 if none of its jobs waits. The
    Jain index is that of the reciprocals (Jain, Chiu, Hawe, DEC-TR-301): 1 if all owners are slowed down alike, 1/n if of n owners
    one alone is served. Owners of whose jobs none has work have no slowdown, and are left out.

    Args:
        owner: Index of the owner of each row of the trace.
        trace: The jobs.
        outcome: What happened to them.
    """
    lasted = np.bincount(owner, trace.duration)
    present = np.flatnonzero(lasted)
    slowdown = np.bincount(owner, outcome.jct)[present] / lasted[present]
    slowdown = slowdown if len(present) else np.ones(1)
    speed = 1.0 / slowdown
    return {
        "owners": len(present),
        "jain_index": float(speed.sum() ** 2 / (len(speed) * (speed**2).sum())),
        "worst_slowdown": float(slowdown.max()),
        "p90_slowdown": float(np.percentile(slowdown, 90)),
        "mean_slowdown": float(slowdown.mean()),
    }


def _of_jobs(delay: Floats, jct: Floats) -> Summary:
    p99 = float(np.percentile(delay, 99))
    return {"jobs": len(jct), "mean_queueing": float(delay.mean()), "p99_queueing": p99, "mean_jct": float(jct.mean())}


def ratios(summaries: Mapping[str, Summary]) -> dict[str, Summary]:
    """Return the times of each summary but the first, as multiples of the first one's; left out where that is zero."""
    base = next(iter(summaries.values()))
    return {name: _ratios(each, base, RATIOS) for name, each in summaries.items() if each is not base}


def _ratios(each: Summary, base: Summary, keys: Iterable[str]) -> Summary:
    return {key: each[key] / base[key] for key in keys if base[key] > 0}


def over_time(timeline: Timeline, values: Floats | Ints, edges: Floats) -> Floats:
    """Return the mean of `values` between each two of `edges`, shape (edges - 1,).

    Args:
        timeline: The cluster over time.
        values: One for each step of the timeline, shape (steps,).
        edges: Moments, seconds.

    Before the first step nothing is there; the last value lasts.
    """
    lengths = np.diff(timeline.time)
    passed = np.concatenate(([0.0], np.cumsum(values[:-1] * lengths)))
    beyond = np.maximum(edges - timeline.time[-1], 0.0) * float(values[-1])
    integral = np.interp(edges, timeline.time, passed, left=0.0) + beyond
    means: Floats = np.diff(integral) / np.diff(edges)
    return means


def cumulative(values: Floats, most: int) -> tuple[Floats, Floats]:
    """Return the distribution function: sorted values, at most `most` of them, and the share of values up to each."""
    count = len(values)
    rows = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
    return np.sort(values)[rows], (rows + 1) / count


def finite(number: float) -> float | None:
    """Return the number, or None for infinity, which JSON does not have."""
    return number if math.isfinite(number) else None
