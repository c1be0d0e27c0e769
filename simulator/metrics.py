"""What is said of a simulation: the keys of `tiresias simulate --json`, all times in seconds."""

from __future__ import annotations

import numpy as np

from tiresias.simulator.cluster import Cluster
from tiresias.simulator.engine import Outcome
from tiresias.simulator.trace import Trace


def summary(trace: Trace, cluster: Cluster, outcome: Outcome, wall_seconds: float) -> dict[str, float]:
    """Queueing is all the time of a job in which it made no progress. gpu_utilization: GPU-seconds of work / (GPUs x makespan)."""
    makespan = float(outcome.finish.max() - trace.submit[0])
    median, p95, p99 = np.percentile(outcome.jct, (50, 95, 99)).tolist()
    return {
        "mean_jct": float(outcome.jct.mean()),
        "median_jct": median,
        "p95_jct": p95,
        "p99_jct": p99,
        "makespan": makespan,
        "mean_queueing": float((outcome.jct - trace.duration).mean()),
        "preemptions": int(outcome.preemptions.sum()),
        "gpu_utilization": float(trace.gpus @ trace.duration) / (cluster.gpus * makespan) if makespan else 0.0,
        "jobs": len(trace),
        "wall_seconds": wall_seconds,
    }
