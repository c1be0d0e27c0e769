"""The rules that each assignment keeps, and the errors of one that cannot be made.

AssignmentRefused
├── NoAggregatorLeft   not now: the budget is used up
└── JobTooLarge        never: the job needs more aggregators than the servers that it declared
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiresias.errors import TiresiasError, Unavailable
from tiresias.services.parameter_service.assignment.execution_cycle import TOLERANCE
from tiresias.services.parameter_service.assignment.job_work import JobWork

LOSS_LIMIT = 0.1  # of the thesis
BURST_FACTOR = 1.25


class AssignmentRefused(TiresiasError):
    """The tensors of a job cannot be assigned."""


class NoAggregatorLeft(AssignmentRefused, Unavailable):
    """Not now: more aggregators are needed than the budget has left."""


class JobTooLarge(AssignmentRefused):
    """Never: the job needs more aggregators than the servers that it declared."""


@dataclass(frozen=True)
class AssignmentRules:
    """The limits of each assignment.

    Attributes:
        loss_limit: A job's loss on each aggregator is below it.
        burst_factor: The work of a job on one aggregator is at most this multiple of an even share of its declared servers, or what
            the fullest of them would have. The gradients of an iteration arrive in one burst: a job whose tensors all lie on one
            aggregator would lose the parallel servers with which its iteration was measured. Infinite: no such limit, as in the
            thesis' pseudocode.
    """

    loss_limit: float = LOSS_LIMIT
    burst_factor: float = BURST_FACTOR

    def burst_s(self, work: JobWork) -> float:
        """Return the most seconds of work of an iteration of the job on one aggregator."""
        if math.isinf(self.burst_factor):
            return math.inf
        return max(self.burst_factor * work.work_s / work.servers, work.even_share_s) * (1 + TOLERANCE)
