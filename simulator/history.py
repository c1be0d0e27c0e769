"""The jobs of a trace as completed ones, from which a policy has learned before a simulation begins."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.simulator.trace import Trace


def completed_jobs(trace: Trace) -> Completed:
    """Return the jobs in the order in which they would complete if each of them ran at once. O(jobs log jobs)."""
    rows = np.argsort(trace.submit + trace.duration, kind="stable")
    user, vc, model = (tuple(map(words.__getitem__, rows.tolist())) for words in (trace.user, trace.vc, trace.model))
    gpus = trace.gpus[rows]
    return Completed(gpus, gpus * trace.duration[rows], trace.submit[rows], user, vc, model)
