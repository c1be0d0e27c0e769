"""What is said of a simulation: the keys of `tiresias simulate --json`, all times in seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiresias.simulator.cluster import Cluster
from tiresias.simulator.engine import Outcome
from tiresias.simulator.trace import TraceJob


def summary(jobs: Sequence[TraceJob], cluster: Cluster, outcome: Outcome, wall_seconds: float) -> dict[str, float]:
    """Queueing is all the time of a job in which it made no progress. gpu_utilization: GPU-seconds of work / (GPUs x makespan)."""
    duration = np.array([job.duration for job in jobs])
    gpus = np.array([job.num_gpus for job in jobs])
    makespan = float(outcome.finish.max() - min(job.submit_time for job in jobs))
    median, p95, p99 = np.percentile(outcome.jct, (50, 95, 99)).tolist()
    return {
        "mean_jct": float(outcome.jct.mean()),
        "median_jct": median,
        "p95_jct": p95,
        "p99_jct": p99,
        "makespan": makespan,
        "mean_queueing": float((outcome.jct - duration).mean()),
        "preemptions": int(outcome.preemptions.sum()),
        "gpu_utilization": float(gpus @ duration) / (cluster.gpus * makespan) if makespan else 0.0,
        "jobs": len(jobs),
        "wall_seconds": wall_seconds,
    }
