"""The waiting jobs that the admit stage of `decide` may start: by Slurm's rules, and by the starts that Slurm refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiresias.scheduler.model import Bools, Quota
from tiresias.slurm_plugin.admission.refusals import ANSWERED, RetryPlan

NOWHERE: frozenset[str] = frozenset()
NONE_REFUSED = RetryPlan({}, {})


@dataclass(frozen=True, slots=True)
class Eligibility:
    """By job id.

    Attributes:
        obstacle: Slurm's reason for which a job cannot start now.
        closed: nodes on which a job cannot start now.
        quotas: limits that jobs share: Slurm's reason, what is left, what each waiting job would take.
        trial: the jobs that Slurm refused to start.
    """

    obstacle: Mapping[str, str] = field(default_factory=dict)
    closed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    quotas: Sequence[tuple[str, float, Mapping[str, float]]] = ()
    trial: RetryPlan = NONE_REFUSED

    def allowed(self, row_of: Mapping[str, int]) -> Bools:
        """Return which jobs may be started, shape (jobs,). row_of: the row of each job."""
        return ~(_has(self.obstacle, row_of) | _has(self.trial.held_back, row_of))

    def reasons(self, row_of: Mapping[str, int]) -> list[str]:
        """Return Slurm's reason why each job waits, "" for none. row_of: the row of each job."""
        found = [""] * len(row_of)
        for job_id in {*self.obstacle, *self.trial.refused} & row_of.keys():
            refused = self.trial.refused.get(job_id, "").removeprefix(ANSWERED)
            found[row_of[job_id]] = self.obstacle.get(job_id) or refused
        return found

    def refused(self, row_of: Mapping[str, int]) -> Bools:
        """Return whether Slurm refused a start of each job or of a job of its group. row_of: the row of each job."""
        return _has(self.trial.refused, row_of)

    def closed_to(self, job_id: str) -> frozenset[str]:
        """Return the nodes on which the job cannot start."""
        return self.closed.get(job_id, NOWHERE)

    def of_rows(self, ids: Sequence[str]) -> tuple[Quota, ...]:
        """Return the quotas for a snapshot with these jobs."""
        row_of = {job_id: row for row, job_id in enumerate(ids)} if self.quotas else {}
        return tuple(
            Quota(reason, left, {row_of[job]: amount for job, amount in amounts.items() if job in row_of})
            for reason, left, amounts in self.quotas
        )


def _has(ids: Iterable[str], row_of: Mapping[str, int]) -> Bools:
    """Return which jobs are among these, shape (jobs,)."""
    found = np.zeros(len(row_of), np.bool_)
    found[[row_of[one] for one in ids if one in row_of]] = True
    return found
