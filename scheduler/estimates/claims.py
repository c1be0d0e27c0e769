"""What a claim of remaining time is worth: the reports of programs, corrected by what happened and by their owners' record.

A program that reports its progress claims how long it still needs (`Jobs.claimed_remaining`). The claim is its owner's word, and
one that is too short ranks the job too high. Three rules bound what that gains:

  - Within a job, time is compared with claims. A claim that falls by less than a second for each second of work is stretched by
    the same factor: a job that always claims a tenth of what is left is soon expected to need ten times its claim.
  - A job that works past the earliest end that it ever claimed, by OVERRUN of it and SLACK_S, is ranked by its age like a job
    without reports; then only claims that are longer than that still count. Until then it is expected to need _LATE times what it
    is late by. So a claim ranks a job too high for no longer than the claimed time and that overrun, however it is changed later.
  - The claims of the owner's completed jobs are compared with the time that these jobs needed (`Trust`). Later claims are stretched
    by the mean factor, and count less the more the factors differ: the expectation is the geometric mean of claim and age,
    weighted by that trust.

All times are seconds of work: run time without start-up, restore and save. Pure; numbers in, numbers out, arrays in, arrays out.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from tiresias.scheduler.elementwise import Values, larger, smaller, where

FIRST_CLAIM_S: Final = 30.0  # seconds of work within which a job that reports has made a first claim
OVERRUN = 0.25  # of the earliest claimed end
SLACK_S = 60.0  # seconds of work: measured paces and restarts are not exact
_SLACK = 0.05  # of the first claim
_SLOWEST = 0.02  # seconds by which a stretched claim falls each second, at least
_LATE = 2.0  # a job past its claimed end is expected to need so many times what it is late by

_PRIOR = 2.0  # kept claims with which an owner begins
_MOST_LONGER = math.log(1000.0)
_MEMORY = 0.95  # weight of a completed job after each further one


class Claim(NamedTuple):
    """The claims of one job; fields are numbers or arrays of one shape.

    Attributes:
        at: Seconds of work at the newest claim.
        left: Seconds of work left by the newest claim.
        earliest_at, earliest_left: The same of the claim with the earliest end.
    """

    at: Values
    left: Values
    earliest_at: Values
    earliest_left: Values

    @classmethod
    def first(cls, at: float, left: float) -> Claim:
        """Return the first claim of a job."""
        return cls(at, left, at, left)

    def then(self, at: float, left: float) -> Claim:
        """Return the claims with a newer one."""
        if at + left < self.earliest_at + self.earliest_left:
            return Claim.first(at, left)
        return Claim(at, left, self.earliest_at, self.earliest_left)

    def rescaled(self, worked: float, factor: float) -> Claim:
        """Return the claims of a job whose steps take `factor` times as long from `worked` seconds of work on.

        So a job whose size changes is compared with what it claimed before, whatever it claims afterwards.
        """
        left = larger(self.left - (worked - self.at), 0.0)
        earliest = larger(self.earliest_at + self.earliest_left - worked, 0.0)
        return Claim(worked, left * factor, worked, earliest * factor)

    @property
    def trusted_until(self) -> Values:
        """Seconds of work from which on the job has no claim."""
        return (self.earliest_at + self.earliest_left) * (1.0 + OVERRUN) + SLACK_S

    def stretched(self, factor: Values) -> Claim:
        """Return the claims with all times left longer by a factor, 1 or more."""
        return Claim(self.at, self.left * factor, self.earliest_at, self.earliest_left * factor)

    def remaining(self, worked: Values) -> Values:
        """Return the expected seconds of work left after `worked` seconds in all."""
        end = self.earliest_at + self.earliest_left
        left = larger(self.left - (worked - self.at), 0.0)
        late = _LATE * larger(worked - end, 0.0)
        return larger(left / self._rate(worked + left - end, worked), late)

    def _rate(self, drift: Values, worked: Values) -> Values:
        """Return by how much the claim fell in a second of work, up to 1. drift: seconds by which the claimed end has moved."""
        rate = 1.0 - drift / (larger(worked - self.earliest_at, 0.0) + SLACK_S + _SLACK * self.earliest_left)
        return smaller(larger(rate, _SLOWEST), 1.0)


class Trust(NamedTuple):
    """What the claims of an owner's completed jobs were worth; newer jobs count more.

    Attributes:
        jobs: Weight of all jobs.
        kept: Sum over the jobs of the part of the needed time that was expected by the claim, at most 1 each.
        longer: Sum over the jobs of the logarithm of needed over claimed time.
    """

    jobs: float = _PRIOR
    kept: float = _PRIOR
    longer: float = 0.0

    def learned(self, claimed: float, needed: float) -> Trust:
        """Return the trust after one more job.

        Args:
            claimed: Seconds of work left by the claim with the earliest end.
            needed: Seconds of work that were left then.
        """
        claimed, needed = max(claimed, 0.0), max(needed, 0.0) + SLACK_S
        part = min((claimed * self.stretch + SLACK_S) / needed, 1.0)
        longer = min(max(math.log(needed / (claimed + SLACK_S)), -_MOST_LONGER), _MOST_LONGER)
        return Trust(self.jobs * _MEMORY + 1.0, self.kept * _MEMORY + part, self.longer * _MEMORY + longer)

    @property
    def weight(self) -> float:
        """The weight of the owner's claims, 0 to 1."""
        return self.kept / self.jobs

    @property
    def stretch(self) -> float:
        """The factor by which the owner's jobs take longer than claimed, 1 or more."""
        return math.exp(max(self.longer / self.jobs, 0.0))


def expected_remaining(claimed: Values, by_age: Values, trust: Values) -> Values:
    """Return the effective expected seconds until a job completes.

    Args:
        claimed: Seconds left by the job's claim (`Claim.remaining`), with what a start costs it; nan: none.
        by_age: Seconds that a completion is expected to cost a job of this age (`Hazards.index`).
        trust: Weight of the owner's claims (`Trust.weight`), 0 to 1.

    Returns:
        `by_age` where there is no claim or no trust, `claimed` where trust is full, in between the weighted geometric mean.
    """
    known = claimed == claimed  # nan is not equal to itself
    safe = larger(where(known, claimed, by_age), _LEAST_S)
    return where(known & (safe < by_age), safe**trust * by_age ** (1.0 - trust), safe)


_LEAST_S = 1.0  # seconds: no job is expected to end sooner


def coarse(seconds: Values) -> Values:
    """Return the next power of 2 ** (1/4) above, from 16 s on: so the rank of a running job changes at few moments; nan of nan."""
    return where(seconds == seconds, 2.0 ** (_step(seconds) / 4.0), math.nan)


def next_coarse(seconds: Values) -> Values:
    """Return the seconds at which `coarse` falls next; -inf: never."""
    step = _step(seconds)
    return where(step > _LOWEST_STEP, 2.0 ** ((step - 1.0) / 4.0), -math.inf)


_LOWEST_STEP = 16.0  # 2 ** (16 / 4) seconds
_TOLERANCE = 1e-3  # seconds: a sum of floats never lands on a power exactly


def _step(seconds: Values) -> Values:
    return np.ceil(4.0 * np.log2(larger(seconds - _TOLERANCE, 2.0 ** (_LOWEST_STEP / 4.0))))
