"""How soon jobs end, learned for each class of sizes: 1 GPU, 2, up to 4, up to 8, ..., up to 128, and more.

Jobs of many GPUs often run for longer than jobs of one, or for shorter. A class with few jobs says little, so its hazards are drawn
to those of all jobs together: each bucket of a class has the posterior mean under a prior whose mean is the hazard of all jobs, and
which weighs as much as `_WEIGHT` jobs (hierarchical shrinkage).
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.elementwise import Values, interval
from tiresias.scheduler.estimates.hazard import BUCKETS, Hazards, bucket_of
from tiresias.scheduler.model import Floats, Ints

_LARGEST_GPUS = tuple(float(1 << size) for size in range(8))  # of each class but the last one
_LIMITS = tuple(gpus + 0.5 for gpus in _LARGEST_GPUS)
_CLASSES = len(_LIMITS) + 1
_WEIGHT = 10.0  # jobs; by `bench/policies.py` 3 to 30 give nearly the same results


def cell_of(gpus: Values, age: Values) -> Values:
    """Return the place of a job's class and bucket in a table of shape (classes, buckets) that is read row by row."""
    return interval(_LIMITS, gpus) * BUCKETS + bucket_of(age)


def by_size(ended: Floats, ended_gpus: Ints, there: Floats, there_gpus: Ints) -> Hazards:
    """Return the hazards of each class, shape (classes, buckets). O(jobs).

    Args:
        ended: Ages at which jobs ended, seconds.
        ended_gpus: Their GPUs.
        there: Ages of the jobs in the cluster, seconds.
        there_gpus: Their GPUs.
    """
    everyone = Hazards.of(ended, there).of_bucket
    ended_class, there_class = interval(_LIMITS, ended_gpus), interval(_LIMITS, there_gpus)
    classes = (
        Hazards.of(ended[ended_class == each], there[there_class == each], everyone, _WEIGHT)
        for each in range(_CLASSES)
    )
    return Hazards(np.stack([each.of_bucket for each in classes]))


_NO_AGES, _NO_GPUS = np.zeros(0), np.zeros(0, np.int64)
NO_JOBS_KNOWN = by_size(_NO_AGES, _NO_GPUS, _NO_AGES, _NO_GPUS)
