"""How soon jobs end that have been on GPUs for so long already, learned from those that did and did not.

Age, seconds on GPUs in all runs, is cut into buckets that double every second time. A bucket's hazard is the chance that a job
which gets there ends in it: the jobs that ended in it over the jobs that were seen in it; a job that is there now counts in part.
One observation of a Pareto distribution of shape 1 is added, for which every bucket has the same hazard. With nothing else known
that is all, and the order by it is that of the logarithm of the age.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from tiresias.scheduler.elementwise import Values, interval, pick
from tiresias.scheduler.model import Floats, Ints

EDGES = (0.0, *(2.0 ** (half / 2) for half in range(67)))  # seconds; the last one is 272 years
_INNER = EDGES[1:-1]
_ENDS = (*_INNER, math.inf)
_LENGTH = np.diff(EDGES)
_BUCKETS = len(_LENGTH)
_UNKNOWN = 1.0 - 2.0**-0.5  # the chance that a Pareto job of shape 1 ends before it is 2**0.5 times as old

# An age this near below an edge has reached it: sums of floats never land on it exactly.
_TOLERANCE = 1e-3


def bucket_of(age: Values) -> Values:
    """Index of the bucket for each age; bucket i holds EDGES[i] <= age < EDGES[i + 1], and the last one all that is older."""
    return interval(_INNER, age + _TOLERANCE)


def end_of(bucket: Values) -> Values:
    """The age at which a job leaves the bucket; inf for the last one."""
    return pick(_ENDS, bucket)


class Hazards:
    """The hazard of each bucket.

    Attributes:
        of_bucket: The chance to end in each bucket, given that it is reached; shape (buckets,).
    """

    def __init__(self, of_bucket: Floats) -> None:
        self.of_bucket = of_bucket

    @classmethod
    def of(cls, ended: Floats, there: Floats) -> Hazards:
        """Return the hazards learned from jobs. O(jobs).

        Args:
            ended: Ages at which jobs ended, seconds in any order.
            there: Ages of the jobs in the cluster, seconds in any order.
        """
        over, alive = _count(ended), there[there > 0]
        reached = _at_or_after(over) + _at_or_after(_count(alive)) - _count(alive)
        reached += np.bincount(bucket_of(alive), _part(alive), _BUCKETS)
        return cls((over + _UNKNOWN) / (reached + 1.0))

    @cached_property
    def _left(self) -> list[tuple[Floats, Floats]]:
        """For a job in each bucket, by the buckets ahead: the chance that it ends by then, and its mean seconds until then.
        A job that ends in a bucket is taken to end in the middle."""
        return [_ahead(self.of_bucket[bucket:], _LENGTH[bucket:]) for bucket in range(_BUCKETS)]

    def index(self, overhead: float) -> tuple[float, ...]:
        """For a job in each bucket, completions per second of GPU time at best: the Gittins index. Until the bucket that makes
        it highest, the chance to end over the mean seconds, to which `overhead` seconds come that bring the end no nearer."""
        return tuple(float((chance / (overhead + seconds)).max()) for chance, seconds in self._left)


NOTHING_KNOWN = Hazards(np.full(_BUCKETS, _UNKNOWN))


def _count(ages: Floats) -> Ints:
    return np.bincount(bucket_of(ages), minlength=_BUCKETS)


def _at_or_after(count: Ints) -> Floats:
    return np.cumsum(count[::-1])[::-1].astype(np.float64)


def _part(ages: Floats) -> Floats:
    """How far each job is through its bucket."""
    bucket = bucket_of(ages)
    part: Floats = (ages - np.take(EDGES, bucket)) / _LENGTH[bucket]
    return np.clip(part, 0.0, 1.0)


def _ahead(hazard: Floats, length: Floats) -> tuple[Floats, Floats]:
    reached = np.concatenate(([1.0], np.cumprod(1.0 - hazard[:-1])))
    return np.cumsum(reached * hazard), np.cumsum(reached * length * (1.0 - hazard / 2.0))
