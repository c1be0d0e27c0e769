"""Latency of the controller in real seconds: medians, means and 95th percentiles. Pure.

handover    from a job's end to the start of the next training, with no other event in between
release     the part of a handover up to the moment at which the GPUs are given to the next job (start_overhead.py)
arrival     from a submission to the moment at which the job gets GPUs, where no other event is in between
preemption  from the decision to free GPUs
start       from the decision to the RUNNING state
first_line  from the decision or, under unmodified Slurm, the launch of the batch script, to the first line of the program, in a
            first run (start_overhead.py)
restart     the same of later runs, which load a checkpoint
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.sandbox.replay.replay_results import JobResult
from tiresias.sandbox.replay.start_overhead import Moments
from tiresias.slurm_plugin.state.journal_rows import Decision

SPANS = {"preemption": ("preempt", "parked"), "start": ("start", "running")}  # decisions that open and close a span


class Handover(NamedTuple):
    """An end and the start that follows it with no submission, end or stop in between: only the freed GPUs explain that start.

    Attributes:
        end: Of the job that held the GPUs.
        start: First line of the next training.
        job: Slurm's id of the job that starts.
    """

    end: float
    start: float
    job: str


def handovers(results: Sequence[JobResult]) -> list[Handover]:
    """Return the handovers, oldest first."""
    moments = sorted(_moments(results))
    pairs = itertools.pairwise(moments)
    return [
        Handover(before, after, job)
        for (before, what, _), (after, then, job) in pairs
        if (what, then) == ("end", "start")
    ]


def arrivals(results: Sequence[JobResult], given: Moments) -> list[float]:
    """Return the times from each submission to the moment at which the job gets GPUs, where nothing else explains its start."""
    pairs = itertools.pairwise(sorted(_moments(results)))
    started = [
        (submitted, _last(given.get(job, ()), start))
        for (submitted, what, job), (start, then, other) in pairs
        if (what, then) == ("submit", "start") and job == other
    ]
    return [moment - submitted for submitted, moment in started if moment is not None and moment >= submitted]


def _moments(results: Sequence[JobResult]) -> Iterator[tuple[float, str, str]]:
    for result in results:
        yield result.submit, "submit", result.id
        for run in result.runs:
            yield run.start, "start", result.id
            if run.end == run.end:
                yield run.end, "end" if run.end == result.finish else "stop", result.id


def releases(found: Iterable[Handover], given: Moments) -> list[float]:
    """Return the times from each end to the moment at which the GPUs are given to the job that starts. given: by start_overhead."""
    before = [(handover.end, _last(given.get(handover.job, ()), handover.start)) for handover in found]
    return [moment - end for end, moment in before if moment is not None and moment >= end]


def _last(moments: Sequence[float], until: float) -> float | None:
    at = bisect_right(moments, until)
    return moments[at - 1] if at else None


def spans(decisions: Iterable[Decision], kind: str) -> list[float]:
    """Return the lengths of the spans of one kind, without cancelled ones. `decisions`: oldest first."""
    opening, closing = SPANS[kind]
    began: dict[str, float] = {}
    lengths = []
    for decision in decisions:
        if decision.action == opening:
            began[decision.id] = decision.time
        elif (start := began.pop(decision.id, None)) is not None and decision.action == closing:
            lengths.append(decision.time - start)
    return lengths


def summary(lengths: Sequence[float]) -> dict[str, float]:
    """Return count, median, mean, 95th percentile and maximum."""
    if not lengths:
        return {"count": 0}
    median, p95 = np.percentile(lengths, [50, 95]).tolist()
    return {"count": len(lengths), "median": median, "mean": float(np.mean(lengths)), "p95": p95, "max": max(lengths)}
