"""How soon jobs end that have been on GPUs for so long already, learned from those that did and did not.

Age, seconds on GPUs in all runs, is cut into buckets (`age_buckets`). A bucket's hazard is the chance that a job
which gets there ends in it: the jobs that ended in it over the jobs that were seen in it; a job that is there now counts in part.
Observations of a prior are added, by default one of a Pareto distribution of shape 1, for which every bucket has the same hazard.
With nothing else known that is all, and the order by it is that of the logarithm of the age.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from tiresias.scheduler.estimates.age_buckets import BUCKETS, EDGES, bucket_of
from tiresias.scheduler.estimates.claims import FIRST_CLAIM_S
from tiresias.scheduler.model import Floats

_LENGTH = np.diff(EDGES)
_AFTER_CLAIM = np.maximum(np.array(EDGES[1:]) - FIRST_CLAIM_S, 0.0)  # seconds from then to the end of each bucket
_CLAIMS_LATER = np.array(EDGES[:-1]) < FIRST_CLAIM_S
_AHEAD = np.triu(np.ones((BUCKETS, BUCKETS), np.bool_))  # of each bucket, itself and the later ones
UNKNOWN = 1.0 - 2.0**-0.5  # the chance that a Pareto job of shape 1 ends before it is 2**0.5 times as old
PRIOR_WEIGHT = 10.0  # jobs, as which it counts in each bucket of all jobs


class Hazards:
    """The hazard of each bucket, of one kind of jobs or of several.

    Attributes:
        of_bucket: The chance to end in each bucket, given that it is reached; shape (..., buckets).
    """

    def __init__(self, of_bucket: Floats) -> None:
        self.of_bucket = of_bucket

    @classmethod
    def of(
        cls,
        ended: Floats,
        there: Floats,
        prior: Floats | float = UNKNOWN,
        weight: float = 1.0,
        counts: Floats | None = None,
    ) -> Hazards:
        """Return the hazards learned from jobs. O(jobs).

        The posterior mean of each hazard under the prior Beta(weight x prior, weight x (1 - prior)).

        Args:
            ended: Ages at which jobs ended, seconds in any order.
            there: Ages of the jobs in the cluster, seconds in any order.
            prior: The hazard that is expected, of all buckets or shape (buckets,).
            weight: Jobs seen in a bucket for which its own hazard counts as much as the prior.
            counts: As how many jobs each of `ended` counts; None: one.
        """
        over, alive = _count(ended, counts), there[there > 0]
        reached = _at_or_after(over) + _at_or_after(_count(alive)) - _count(alive)
        reached += np.bincount(bucket_of(alive), _part(alive), BUCKETS)
        return cls((over + weight * prior) / (reached + weight))

    @cached_property
    def _left(self) -> tuple[Floats, Floats]:
        """For a job in each bucket, by the buckets: the chance that it ends by then, and its mean seconds until then; inf before
        the bucket of the job. Shape (..., buckets, buckets). A job that ends in a bucket is taken to end in the middle."""
        hazard = np.where(_AHEAD, self.of_bucket[..., None, :], 0.0)
        reached = np.ones_like(hazard)
        reached[..., 1:] = np.cumprod(1.0 - hazard[..., :-1], -1)
        seconds = np.cumsum(np.where(_AHEAD, reached * _LENGTH * (1.0 - hazard / 2.0), 0.0), -1)
        return np.cumsum(reached * hazard, -1), np.where(_AHEAD, seconds, math.inf)

    def index(self, overhead: float, reporting: float = 0.0) -> Floats:
        """Return, for a job in each bucket, completions per second of GPU time at best: the Gittins index; shape (..., buckets).

        Until the bucket that makes it highest, the chance to end over the mean seconds, to which `overhead` seconds come that
        bring the end no nearer.

        A job that may yet report is worth a start for what its first claim tells: if that is longer than the end of the bucket, the
        job can be stopped at once, and uses none of the seconds in between.

        Args:
            overhead: Seconds.
            reporting: The chance that a job younger than FIRST_CLAIM_S reports how long it needs.
        """
        chance, seconds = self._left
        index = (chance / (overhead + seconds)).max(-1)
        if not reporting:
            return np.asarray(index)
        stopped = np.where(_AHEAD, reporting * _AFTER_CLAIM * (1.0 - chance), 0.0)
        informed = (chance / (overhead + seconds - stopped)).max(-1)
        return np.asarray(np.where(_CLAIMS_LATER, informed, index))

    def log_likelihood(self, ended: Floats) -> float:
        """Return the logarithm of the chance that jobs end in the buckets of these ages, for hazards of shape (buckets,)."""
        survives = np.concatenate(([0.0], np.cumsum(np.log1p(-self.of_bucket[:-1]))))
        return float((np.log(self.of_bucket) + survives)[bucket_of(ended)].sum())

    @property
    def per_second(self) -> Floats:
        """The mean rate at which jobs in each bucket end, 1 / s; shape (..., buckets)."""
        return np.asarray(-np.log1p(-self.of_bucket) / _LENGTH)


def _count(ages: Floats, counts: Floats | None = None) -> Floats:
    return np.bincount(bucket_of(ages), counts, BUCKETS).astype(np.float64)


def _at_or_after(count: Floats) -> Floats:
    return np.cumsum(count[::-1])[::-1]


def _part(ages: Floats) -> Floats:
    """How far each job is through its bucket."""
    bucket = bucket_of(ages)
    part: Floats = (ages - np.take(EDGES, bucket)) / _LENGTH[bucket]
    return np.clip(part, 0.0, 1.0)
