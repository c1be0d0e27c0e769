"""The service that a job attained and the cost of its preemptions, from its runs. Pure.

Everything is counted in a window of time, so that Monday and Tuesday add up to both days: what lasts by the seconds that lie in the
window, what happens at a moment by that moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow


class Window(NamedTuple):
    """From `since` to before `until`, epoch seconds."""

    since: float
    until: float

    def seconds(self, start: float, end: float) -> float:
        """Return how many seconds from `start` to `end` lie in the window."""
        return max(min(end, self.until) - max(start, self.since), 0.0)

    def holds(self, moment: float) -> bool:
        """Return whether the moment lies in the window."""
        return self.since <= moment < self.until


class Usage(NamedTuple):
    """What a job attained in a window, and what preemptions cost it.

    Attributes:
        runs: Runs that began.
        preemptions: Runs that the controller ended.
        served: GPU-seconds.
        queued: Seconds from the submission to the first run, whatever kept the job waiting.
        parked: Seconds between runs, and after the last one until the job ended.
        saving: Of `served`, GPU-seconds from checkpoint signals until the GPUs were free, where measured.
        restoring: Of `served`, GPU-seconds from starts after a preemption to the first step, where measured.
        redone: Of `served`, GPU-seconds of steps that were done again, where measured, and of runs that the controller ended
            without a checkpoint.
    """

    runs: int = 0
    preemptions: int = 0
    served: float = 0.0
    queued: float = 0.0
    parked: float = 0.0
    saving: float = 0.0
    restoring: float = 0.0
    redone: float = 0.0


def usage(job: JobRow, runs: Sequence[RunRow], window: Window, now: float) -> Usage:
    """Return the usage of a job. O(runs).

    Args:
        job: The job.
        runs: All its runs, sorted by restart count.
        window: The period.
        now: Epoch second at which a run or wait that has not ended is cut off.
    """
    over = job.over or now
    ends = [run.end or over for run in runs]
    stops = [run for run in runs if _preempted(run) and window.holds(run.end)]
    returns = [(before, run) for before, run in pairwise(runs) if _preempted(before) and window.holds(run.start)]
    return Usage(
        runs=sum(window.holds(run.start) for run in runs),
        preemptions=len(stops),
        served=sum(run.gpus * window.seconds(run.start, end) for run, end in zip(runs, ends, strict=True)),
        queued=window.seconds(job.submit, runs[0].start if runs else over),
        parked=sum(map(window.seconds, ends, [*(run.start for run in runs[1:]), over])),
        saving=sum(_held(run, run.pause, over) for run in stops),
        restoring=sum(_held(run, run.restore, over) for _, run in returns),
        redone=sum(_held(run, run.lost, over) for run in stops)
        + sum(_held(*each, over) for each in map(_redone, returns)),
    )


def preemption_cost(runs: Sequence[RunRow]) -> float:
    """Return the seconds that a job holds its GPUs without progress at a preemption; nan: unknown.

    They last from the signal until the GPUs are free (else: the save), and from a start to the first step.

    Args:
        runs: The job's, sorted by restart count; the newest measured values count.
    """
    stops = [one for run in reversed(runs) if (one := run.save if run.pause is None else run.pause) is not None]
    starts = [run.restore for run in reversed(runs) if run.restore is not None]
    return stops[0] + starts[0] if stops and starts else math.nan


def _preempted(run: RunRow) -> bool:
    """Return whether the controller ended the run: only such a run has a measured pause, or lost work."""
    return run.pause is not None or run.lost is not None


def _redone(runs: tuple[RunRow, RunRow]) -> tuple[RunRow, float]:
    """Return a run after a preemption, and its seconds of steps that were done again; 0 where they count as lost already."""
    before, run = runs
    return run, 0.0 if before.lost is not None else (run.redone or 0) * (run.pace or 0.0)


def _held(run: RunRow, seconds: float | None, over: float) -> float:
    """Return GPU-seconds of the run; a program's report is trusted up to the length of its run."""
    return run.gpus * min(seconds or 0.0, max((run.end or over) - run.start, 0.0))
