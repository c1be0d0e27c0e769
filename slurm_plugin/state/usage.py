"""What a job had and what preemptions took from it, from its runs. Pure.

Everything is counted in a window of time, so that Monday and Tuesday add up to both days: what lasts by the seconds that lie in the
window, what happens at a moment by that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow


class Window(NamedTuple):
    """From `since` to before `until`, epoch seconds."""

    since: float
    until: float

    def seconds(self, start: float, end: float) -> float:
        return max(min(end, self.until) - max(start, self.since), 0.0)

    def holds(self, moment: float) -> bool:
        return self.since <= moment < self.until


class Usage(NamedTuple):
    """runs: that began. preemptions: runs that the controller ended. served: GPU-seconds. queued: seconds from the submission to
    the first run; parked: between runs, and after the last one until the job ends. Both count whatever kept the job waiting.

    Of `served`, GPU-seconds without progress that preemptions cost, where they were measured: saving: from the checkpoint signal
    until the GPUs were free; restoring: from the start after it to the first step; redone: steps that were done once more.
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
    """`runs`: all of the job's, by restart count. `now`: epoch seconds; until then goes what has not ended. O(runs)."""
    over = job.over or now
    ends = [run.end or over for run in runs]
    stops = [run for run in runs if _preempted(run) and window.holds(run.end)]
    returns = [run for before, run in pairwise(runs) if _preempted(before) and window.holds(run.start)]
    return Usage(
        runs=sum(window.holds(run.start) for run in runs),
        preemptions=len(stops),
        served=sum(run.gpus * window.seconds(run.start, end) for run, end in zip(runs, ends, strict=True)),
        queued=window.seconds(job.submit, runs[0].start if runs else over),
        parked=sum(map(window.seconds, ends, [*(run.start for run in runs[1:]), over])),
        saving=sum(_held(run, run.pause, over) for run in stops),
        restoring=sum(_held(run, run.restore, over) for run in returns),
        redone=sum(_held(run, (run.redone or 0) * (run.pace or 0.0), over) for run in returns),
    )


def _preempted(run: RunRow) -> bool:
    """Who was paused for another job went back to wait."""
    return run.pause is not None


def _held(run: RunRow, seconds: float | None, over: float) -> float:
    """GPU-seconds; what a job says of itself is believed as far as its run was long."""
    return run.gpus * min(seconds or 0.0, max((run.end or over) - run.start, 0.0))
