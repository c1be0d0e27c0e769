"""The policies of all tenants of a simulated cluster, as the one policy of its event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.model import Snapshot
from tiresias.scheduler.rank.policy import Policy, Ranking, Rows


class TenantPolicies(Policy):
    """A policy for each tenant. What concerns one job is asked of the policy of its tenant; a rule of tenants asks for `of`.

    Args:
        default: The policy of the tenants that have none of their own, and of the jobs of no tenant.
        own: The policies of the others, by the name of the tenant.
        clusters: The virtual cluster of each row of the trace.
    """

    def __init__(self, default: Policy, own: Mapping[str, Policy], clusters: Sequence[str]) -> None:
        self._default, self._own, self._clusters = default, own, clusters
        every = (default, *own.values())
        self.preempts = any(policy.preempts for policy in every)
        self.refit_at = min(policy.refit_at for policy in every)

    def of(self, tenant: str) -> Policy:
        """Return the policy of a tenant."""
        return self._own.get(tenant, self._default)

    def rank(self, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
        """Return the order of the jobs of no tenant."""
        return self._default.rank(snapshot, config)

    def promoted(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return whether the policy of its tenant promotes a job now."""
        return self._of_job(jobs).promoted(jobs, now, config)

    def change(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return the moment of the next change of a job under the policy of its tenant."""
        return self._of_job(jobs).change(jobs, now, config)

    def turn(self, now: float, config: PolicyConfig) -> float:
        """Return the next turn of any tenant's policy."""
        return min(policy.turn(now, config) for policy in (self._default, *self._own.values()))

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> Policy:
        """Return the policies, of which those whose time has come have learned from all completed jobs."""
        learned = [_fitted(policy, completed, there, cluster) for policy in (self._default, *self._own.values())]
        return TenantPolicies(learned[0], dict(zip(self._own, learned[1:], strict=True)), self._clusters)

    def _of_job(self, job: Rows) -> Policy:
        """Return the policy of one simulated job."""
        row: int = job.row  # type: ignore[attr-defined]  # the event loop asks about its own jobs
        return self.of(self._clusters[row])


def _fitted(policy: Policy, completed: Completed, there: Rows, cluster: int) -> Policy:
    return policy.fitted(completed, there, cluster) if len(completed) >= policy.refit_at else policy
