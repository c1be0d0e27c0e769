"""How soon jobs end, learned for each class of sizes: 1 GPU, 2, up to 4, up to 8, ..., up to 128, and more.

Jobs of many GPUs often run for longer than jobs of one, or for shorter. The hazards of a class with few jobs are uncertain, so they
are drawn to those of all jobs together: each bucket of a class has the posterior mean under a prior whose mean is the hazard of all
jobs, and which counts as `_WEIGHT` jobs (hierarchical shrinkage). Those of all jobs are drawn to a Pareto distribution of shape 1
in the same way.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tiresias.scheduler.elementwise import Values, interval, pick, smaller
from tiresias.scheduler.estimates.age_buckets import BUCKETS, bucket_of
from tiresias.scheduler.estimates.hazard import PRIOR_WEIGHT, UNKNOWN, Hazards
from tiresias.scheduler.model import Floats, Ints

_LIMITS: Final = tuple(float(1 << size) + 0.5 for size in range(8))  # GPUs of each class but the last one, at most
_CLASSES = len(_LIMITS) + 1
_MOST: Final = (1 << len(_LIMITS) - 1) + 1  # the first number of the last class
_FIRST_CELLS: Final = tuple(BUCKETS * interval(_LIMITS, gpus) for gpus in range(_MOST + 1))
_WEIGHT = 3.0  # jobs, as which the hazards of all jobs count in each bucket of a class


def cell_of(gpus: Values, age: Values) -> Values:
    """Return the place of a job's class and bucket in a table of shape (classes, buckets) that is read row by row."""
    return _first_cell(gpus) + bucket_of(age)


def cells_of(gpus: int) -> range:
    """Return the cells of all buckets of a job's class."""
    first: int = _first_cell(gpus)
    return range(first, first + BUCKETS)


def _first_cell(gpus: Values) -> Values:
    return pick(_FIRST_CELLS, smaller(gpus, _MOST))


def by_size(ended: Floats, ended_gpus: Ints, there: Floats, there_gpus: Ints, counts: Floats | None = None) -> Hazards:
    """Return the hazards of each class, shape (classes, buckets). O(jobs).

    Args:
        ended: Ages at which jobs ended, seconds.
        ended_gpus: Their GPUs.
        there: Ages of the jobs in the cluster, seconds.
        there_gpus: Their GPUs.
        counts: As how many jobs each of `ended` counts; None: one.
    """
    counts = np.ones(len(ended)) if counts is None else counts
    everyone = Hazards.of(ended, there, UNKNOWN, PRIOR_WEIGHT, counts).of_bucket
    ended_class, there_class = interval(_LIMITS, ended_gpus), interval(_LIMITS, there_gpus)

    def of_class(each: int) -> Floats:
        over, alive = ended_class == each, there_class == each
        return Hazards.of(ended[over], there[alive], everyone, _WEIGHT, counts[over]).of_bucket

    return Hazards(np.stack([of_class(each) for each in range(_CLASSES)]))


_NO_AGES, _NO_GPUS = np.zeros(0), np.zeros(0, np.int64)
NO_JOBS_KNOWN = by_size(_NO_AGES, _NO_GPUS, _NO_AGES, _NO_GPUS)
