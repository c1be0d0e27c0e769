"""The results of a simulation: what happened to each job, and the state of the cluster over time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.contention.contention_tracker import JobSlowdowns


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The cluster over time: one row for each decision, valid until the next one.

    Attributes:
        time: Moments of the decisions, seconds, shape (steps,).
        used: Allocated GPUs, shape (steps,).
        running: Running jobs, shape (steps,).
        waiting: Waiting jobs, preempted jobs that still release their GPUs included, shape (steps,).
    """

    time: Floats
    used: Ints
    running: Ints
    waiting: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What happened to each job of a trace. Arrays have the shape (jobs,) and the order of the trace.

    Attributes:
        start: First start of each job, seconds; nan for a job that has not ended.
        finish: End of each job, seconds; nan for a job that has not ended.
        jct: Job completion time: end minus submission, seconds.
        preemptions: Number of preemptions of each ended job.
        timeline: The cluster over time.
        decisions: Number of scheduling decisions.
        overhead: GPU-seconds without progress, because of preemptions and restarts.
        lost: GPU-seconds of work that node failures undid.
        resizes: Number of changes of the size of each ended job; empty: no job is elastic.
        held: Seconds on GPUs of each ended job; empty: no job is elastic.
        slowdowns: How much jobs slowed each other; None: that is not simulated.
        memory: The memory that jobs used, by name of the metric; empty: that is not simulated.
    """

    start: Floats
    finish: Floats
    jct: Floats
    preemptions: Ints
    timeline: Timeline
    decisions: int
    overhead: float
    lost: float = 0.0
    resizes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    held: Floats = field(default_factory=lambda: np.zeros(0))
    slowdowns: JobSlowdowns | None = None
    memory: dict[str, float] = field(default_factory=dict)
