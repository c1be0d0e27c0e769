"""The records of mode shadow: how long it watched, and the actions of mode exact that Slurm did not take meanwhile.

Moments are epoch seconds. A row of `would` lasts from the poll at which mode exact would have acted until Slurm did the same, or
mode exact would act no longer. While it lasts its `until` is empty and counts as that of its watch, so that one write a cycle
is enough, and the watch of a killed controller lasts until its last cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

START, START_AFTER, PREEMPT = "start", "start after", "preempt"


@dataclass(slots=True)
class WatchRow:
    """Polls without a gap between them, of a cluster of so many GPUs."""

    began: float
    until: float
    gpus: int
    busy: float = 0.0  # GPU-seconds of managed jobs
    movable: float = 0.0  # of these, of jobs that may be preempted
    agreed: float = 0.0  # seconds without an action
    idle: float = 0.0  # GPU-seconds that were free, though mode exact would have started jobs on them
    taken: float = 0.0  # GPU-seconds of jobs that mode exact would have preempted
    sooner: int = 0  # runs that mode exact would have started before Slurm did
    preempted: int = 0  # runs that mode exact would have preempted


@dataclass(slots=True)
class WouldRow:
    """One action that mode exact would have taken.

    Attributes:
        key: The job's, as in JobRow.
        restart: Restart count of the run that would have ended, or would have begun.
        action: START on free GPUs, START_AFTER on GPUs of preempted jobs, or PREEMPT.
        watch: `began` of the watch that it belongs to.
        beneficiary: The job for which PREEMPT would have been done.
    """

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
