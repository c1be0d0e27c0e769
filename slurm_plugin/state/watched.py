"""What mode shadow writes down: for how long it watched, and what it would have done meanwhile that Slurm did not do.

Moments are epoch seconds. A row of `would` lasts from the look at which we would have done it until Slurm did it, too, or we would
no longer have; while it goes on its `until` is empty and counts as that of its watch, so that one write a cycle is enough, and a
controller that is killed has watched until its last cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

START, START_AFTER, PREEMPT = "start", "start after", "preempt"


@dataclass(slots=True)
class WatchRow:
    """Looks without a gap between them, at a cluster of so many GPUs."""

    began: float
    until: float
    gpus: int
    busy: float = 0.0  # GPU-seconds of our jobs
    movable: float = 0.0  # of these, of jobs that may be preempted
    agreed: float = 0.0  # seconds during which we would have done nothing
    idle: float = 0.0  # GPU-seconds free, though we would have started jobs on them
    taken: float = 0.0  # GPU-seconds of jobs that we would have preempted
    sooner: int = 0  # runs that we would have started before Slurm did
    preempted: int = 0  # runs that we would have preempted


@dataclass(slots=True)
class WouldRow:
    """restart: of the run that would have ended, or of the one to come. START: on GPUs that were free; START_AFTER: on those that
    preempted jobs would have left. beneficiary: the job for which PREEMPT would have been done."""

    key: str
    restart: int
    action: str
    began: float
    watch: float  # `began` of the watch that it belongs to
    until: float | None
    gpus: int
    nodes: str
    beneficiary: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """Sums over all watches; `began` of the first, `until` of the last, `gpus` of the last."""

    began: float
    until: float
    gpus: int
    seconds: float
    gpu_seconds: float
    busy: float
    movable: float
    agreed: float
    idle: float
    taken: float
    sooner: int
    preempted: int
