"""Latency of the controller in real seconds: medians and 95th percentiles. Pure.

handover    from a job's end to the start of the next training, with no other event in between
preemption  from the decision to free GPUs
start       from the decision to the RUNNING state
first_line  from the decision or, under unmodified Slurm, the launch of the batch script, to the first line of the program, in a
            first run (start_overhead.py)
restart     the same of later runs, which load a checkpoint
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from tiresias.sandbox.replay.replay_results import JobResult
from tiresias.slurm_plugin.state.journal_rows import Decision

SPANS = {"preemption": ("preempt", "parked"), "start": ("start", "running")}  # decisions that open and close a span


def handovers(results: Sequence[JobResult]) -> list[float]:
    """Return the times from an end to a start with no submission, end or stop in between: only the freed GPUs explain that
    start.
    """
    moments = [(result.submit, "submit") for result in results]
    for result in results:
        moments += [(run.start, "start") for run in result.runs]
        moments += [
            (run.end, "end" if run.end == result.finish else "stop") for run in result.runs if run.end == run.end
        ]
    moments.sort()
    pairs = itertools.pairwise(moments)
    return [after - before for (before, what), (after, then) in pairs if (what, then) == ("end", "start")]


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
    """Return count, median and 95th percentile."""
    if not lengths:
        return {"count": 0}
    median, p95 = np.percentile(lengths, [50, 95])
    return {"count": len(lengths), "median": float(median), "p95": float(p95)}
