"""Buckets of ages, seconds on GPUs in all runs: they double every second time."""

from __future__ import annotations

import math
from typing import Final

from tiresias.scheduler.elementwise import Values, interval, pick

EDGES: Final = (0.0, *(2.0 ** (half / 2) for half in range(67)))  # seconds; the last one is 272 years
BUCKETS: Final = len(EDGES) - 1
_INNER: Final = EDGES[1:-1]
ENDS: Final = (*_INNER, math.inf)

# An age this near below an edge has reached it: sums of floats never land on it exactly.
_TOLERANCE: Final = 1e-3


def bucket_of(age: Values) -> Values:
    """Index of the bucket for each age; bucket i holds EDGES[i] <= age < EDGES[i + 1], and the last one all that is older."""
    return interval(_INNER, age + _TOLERANCE)


def end_of(bucket: Values) -> Values:
    """The age at which a job leaves the bucket; inf for the last one."""
    return pick(ENDS, bucket)
