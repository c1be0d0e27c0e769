"""What the owners of jobs used by their shares, and the order that follows: a fair sojourn order between owners.

Service is decayed GPU-seconds (`decayed_service.py`). GPUs are the one resource that managed jobs compete for, so an order by it is
also that of dominant shares (DRF, NSDI 2011), with a memory.

Where owners shared the GPUs all the time, each at the rate of its share, a job would end once its owner has had the GPU-seconds
that the job needs beyond what the owner had before. The fair sojourn protocol (Friedman and Henderson, SIGMETRICS 2003) runs jobs
in the order of these virtual ends, one after the other: no job ends later than it would have there, and most end sooner. Weighted
fair queueing has the same order by finish tags. The tag of a job is the excess of its owner, plus what its completion costs. As
both are GPU-seconds that the owner gets, it does not matter into how many jobs they are divided. Excess counts from the waiting
owner that used the least, so owners that wait for nothing delay no others.

A level is a range of tags, each four times as wide as the one before, as the queues of LAS are ranges of attained service
(section 3.2.2): inside a level the policy orders jobs. Without levels two owners that used the same would preempt each other at
every count. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tiresias.scheduler.elementwise import Values, interval
from tiresias.scheduler.model import Bools, Floats

LEVEL_FACTOR: Final = 4.0
LEVEL_LIMITS: Final = tuple(60.0 * LEVEL_FACTOR**power for power in range(17))
"""GPU-seconds at which a tag gets to the next level: from one GPU-minute to more than a hundred million GPU-hours."""


def level_of(tag: Values) -> Values:
    """Return the fairness level by the tag in GPU-seconds; 0 goes first."""
    return interval(LEVEL_LIMITS, tag)


def uses(served: Floats, shares: Floats) -> Floats:
    """Return what each owner used in multiples of its share, shape (owners,).

    1 is what an owner has that used as large a part of all service as its share is of all shares. Only owners with service count,
    so that the shares of users that never run a job leave no gap. An owner without service has 0, one with service and no share
    inf. The quotient is the reciprocal of "level fair share" in Slurm's Fair Tree.

    Args:
        served: Decayed GPU-seconds of each owner.
        shares: Share of each owner, in any unit.
    """
    active = served > 0.0
    whole, total = float(served.sum()), float(shares[active].sum())
    if not whole:
        return np.zeros(len(served))
    part = served / whole
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(active, part / (shares / total) if total else np.inf, 0.0)
    return np.asarray(found, np.float64)


def excesses(served: Floats, shares: Floats, waits: Bools) -> Floats:
    """Return the GPU-seconds that each owner used more than the waiting owner that used the least, shape (owners,).

    A GPU-second of an owner with twice the mean share counts half. Owners that used less have 0. If none waits, all that was used
    is excess.

    Args:
        served: As for `uses`.
        shares: As for `uses`.
        waits: Which owners have a job that waits for GPUs.
    """
    active = int((served > 0.0).sum())
    used = uses(served, shares) * (float(served.sum()) / max(active, 1))
    least = float(used[waits].min(initial=np.inf))
    return np.maximum(used - least, 0.0) if least < np.inf else used


def shares_of(names: Sequence[str], shares: Mapping[str, float]) -> Floats:
    """Return the share of each owner, shape (owners,).

    An owner that is missing has the smallest share above 0, and if no owner has any, all are equal.
    """
    least = min((share for share in shares.values() if share > 0.0), default=1.0)
    return np.array([shares.get(name, least) for name in names], np.float64)
