"""The text of a running elastic job's comment: its size, and its predicted end with the interval. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tiresias.scheduler.model import JobState, Snapshot
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.comments import rounding
from tiresias.slurm_plugin.comments.waiting_text import PREFIX, WaitingComment

Ends = Mapping[str, tuple[float, float, float]]  # epoch seconds by job id: the predicted end, its interval


def running_comments(snapshot: Snapshot, records: Sequence[SlurmJob], ends: Ends) -> Iterator[WaitingComment]:
    """Yield the comments of the running elastic jobs whose end is predicted. O(jobs).

    Args:
        snapshot: the jobs and nodes
        records: of Slurm's jobs
        ends: the predicted ends of running jobs, inf: it is not expected to end
    """
    jobs, raw = snapshot.jobs, {job.id: job.raw_id for job in records}
    if jobs.gpu_step is None or jobs.min_gpus is None or jobs.max_gpus is None:
        return
    for row in np.flatnonzero((jobs.gpu_step > 0) & (jobs.state == JobState.RUNNING)).tolist():
        name = jobs.id[row]
        end = _end(ends[name], snapshot.time) if name in ends and name in raw else ""
        if end:
            size = f"{jobs.gpus[row]} GPU{'s' if jobs.gpus[row] > 1 else ''}"
            text = f"{PREFIX}{size} (elastic: {jobs.min_gpus[row]} to {jobs.max_gpus[row]}); {end}"
            yield WaitingComment(name, raw[name], text)


def _end(predicted: tuple[float, float, float], now: float) -> str:
    """Return the end in words, rounded to a part of its interval, so that it seldom changes; "" where it is not known."""
    at, low, high = predicted
    if not math.isfinite(low):
        return ""
    step = rounding.part_of_interval((high if math.isfinite(high) else max(at, low)) - low)
    first = rounding.moment(low, now, step, math.floor)
    if not math.isfinite(at):
        return f"ends after {first}"
    until = rounding.moment(high, now, step, math.ceil) if math.isfinite(high) else "later"
    return f"ends about {rounding.moment(at, now, step, round)} (90%: {first} to {until})"
