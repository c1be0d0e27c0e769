"""The waiting jobs that the admit stage of `decide` may start: by Slurm's rules, and by the starts that Slurm refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tiresias.scheduler.model import Quota
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

    def allows(self, job_id: str) -> bool:
        """Return whether the job may be started."""
        return job_id not in self.obstacle and job_id not in self.trial.held_back

    def reason(self, job_id: str) -> str:
        """Return Slurm's reason why the job waits, "" for none."""
        return self.obstacle.get(job_id) or self.trial.refused.get(job_id, "").removeprefix(ANSWERED)

    def is_refused(self, job_id: str) -> bool:
        """Return whether Slurm refused a start of the job or of a job of its group."""
        return job_id in self.trial.refused

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
