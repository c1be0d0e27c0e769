"""As how many GPUs a job counts in the order of jobs: its own, or nearer to the mean where few jobs fit into the cluster at once.

A job takes its GPUs times its seconds from the others, as long as no GPUs are idle while jobs wait. Where few jobs fit into the
cluster at once, GPUs often are: the smallest jobs go first, each on GPUs which a large job then lacks, and the others are too few
for the large one. A small job fits beside large ones, so it loses little where it does not go first. So jobs are ordered more by
their time alone there: of the GPUs by which a job differs from the mean only a part counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.model import Ints

_MOST: Final = 0.85  # of the difference, that does not count where jobs are large
# `requested_beside` as a share of the cluster: up to the one all of the difference counts, from the other on the least of it
_SMALL: Final = 0.25
_LARGE: Final = 0.33
_COMPLETED: Final = 100.0  # jobs after whose completion half of this counts


def charged(gpus: Values, mean: float, drawn: float) -> Values:
    """Return the GPUs that count of a job.

    Args:
        gpus: GPUs of the job.
        mean: GPUs of the mean job.
        drawn: How much of the difference from the mean does not count, 0 to 1.
    """
    return gpus + drawn * (mean - gpus)


def drawn_to_mean(gpus: Ints, cluster: int, completed: int) -> float:
    """Return how much of a job's difference from the mean does not count, 0 to 1; 0 as long as no job has completed.

    Args:
        gpus: GPUs of the known jobs. Those of more GPUs than the cluster has are left out: they never run.
        cluster: GPUs of the cluster; 0: not known.
        completed: Number of completed jobs.
    """
    large = (requested_beside(gpus[gpus <= cluster]) / max(cluster, 1) - _SMALL) / (_LARGE - _SMALL)
    return _MOST * min(max(large, 0.0), 1.0) * completed / (completed + _COMPLETED)


def requested_beside(gpus: Ints) -> float:
    """Return how many GPUs the job requests that requests one GPU, in the mean over all requested GPUs; 0 for no jobs."""
    requested = float(gpus.sum())
    return float(np.square(gpus, dtype=np.float64).sum()) / requested if requested else 0.0
