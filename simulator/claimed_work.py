"""What the progress reports of simulated jobs are worth at a moment: written once for one job and for jobs in columns."""

from __future__ import annotations

import math
from typing import Final, Protocol

from tiresias.scheduler.elementwise import Values, where
from tiresias.scheduler.estimates.claims import FIRST_CLAIM_S, Claim
from tiresias.simulator import work

ROUNDING_S: Final = 1e-6


class ClaimedWork(work.Work, Protocol):
    """The state of one job (`SimulatedJob` documents it), or of many (`JobColumns`)."""

    claimed_total: Values
    claimed_part: Values
    owner_trust: Values
    owner_stretch: Values


def claims(jobs: ClaimedWork) -> Claim:
    """Return the claims of jobs that report since their first FIRST_CLAIM_S seconds of work."""
    worked, total, part = jobs.duration - work.remaining(jobs), jobs.claimed_total, jobs.claimed_part
    claim = Claim(worked, part * (total - worked), FIRST_CLAIM_S, part * (total - FIRST_CLAIM_S))
    return claim.stretched(jobs.owner_stretch)


def remaining(jobs: ClaimedWork) -> Values:
    """Return the seconds of work left by the reports, corrected; nan: no claim counts now."""
    found = claims(jobs)
    return where(found.at + ROUNDING_S < FIRST_CLAIM_S, math.nan, found.remaining(found.at))


def trust(jobs: ClaimedWork) -> Values:
    """Return the weight of the claims: 0 once a job has worked past them."""
    found = claims(jobs)
    return where(found.at + ROUNDING_S < found.trusted_until, jobs.owner_trust, 0.0)
