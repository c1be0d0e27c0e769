"""What the owners of the present jobs used: the columns of the snapshot for policies that count owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress, repeat
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.attained_service import service
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.slurm_rules import FairShare
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.owner_usage import OwnerCount, OwnerUsage, array_of
from tiresias.slurm_plugin.state.ledger import Ledger


class OwnerColumns(NamedTuple):
    """Columns of shape (jobs,).

    Attributes:
        excess: As `Jobs.owner_excess`.
        others: GPU-seconds of the other jobs of the owner or array of each job, where they count as its own; 0.0: of none.
    """

    excess: Floats | None = None
    others: Floats | float = 0.0


class JobOwner(NamedTuple):
    """The owner of a job, for views.

    Attributes:
        kind: "user" or "account".
        name: Its name.
        use: What it used, in multiples of its share.
        share: Its share, as a part of the shares of all owners that used any; None: it used nothing.
    """

    kind: str
    name: str
    use: float
    share: float | None


class JobOwners:
    """Finds what the owners of jobs used, under the policy of each job."""

    def __init__(self, config: Config, ledger: Ledger) -> None:
        self._config, self._ledger, self._usage = config, ledger, OwnerUsage(ledger.history)
        self._of_cluster = {each.tenant.name: each.policy for each in config.virtual_clusters}
        others = (*(policy for _, policy in config.partition_policies), *self._of_cluster.values())
        self._is_one = not others
        self._counted = tuple(dict.fromkeys(one for one in (config.policy, *others) if one.counts_owners))

    def policy_of(self, job: SlurmJob) -> PolicyConfig:
        """Return the policy that ranks a job."""
        cluster = self._ledger.jobs[job.id].virtual_cluster
        return self._of_cluster.get(cluster) or self._config.policy_of(job.partition)

    def columns(self, shown: Sequence[SlurmJob], waits: Bools, now: float, tree: Sequence[FairShare]) -> OwnerColumns:
        """Return the columns for the jobs of a snapshot. O(jobs), and once in a period what `OwnerUsage` reads.

        Args:
            shown: The jobs.
            waits: Which of them wait for GPUs, shape (jobs,).
            now: Epoch second.
            tree: Slurm's shares.
        """
        if not self._counted:
            return OwnerColumns()
        excess, others = np.zeros(len(shown)), np.zeros(len(shown))
        for config in self._counted:
            rows = self._rows_of(config, shown)
            jobs = [shown[row] for row in rows.tolist()]
            owners = list(map(_OWNERS[config.fairness], jobs))
            waiting = frozenset(compress(owners, waits[rows].tolist()))
            count = self._usage.of(config, now, tree, waiting)
            excess[rows] = list(map(count.excess.get, owners, repeat(0.0)))
            if config.attained != "job":
                others[rows] = [self._others(job, config, count) for job in jobs]
        return OwnerColumns(excess, others)

    def _rows_of(self, config: PolicyConfig, shown: Sequence[SlurmJob]) -> Ints:
        """Return the rows of the jobs that a policy ranks."""
        if self._is_one:
            return np.arange(len(shown))
        return np.array([row for row, job in enumerate(shown) if self.policy_of(job) == config], np.int64)

    def shown(self, jobs: Sequence[SlurmJob]) -> dict[str, JobOwner]:
        """Return the owners of managed jobs whose policy shares GPUs between owners, by job id. O(jobs)."""
        found = dict[str, JobOwner]()
        for job in jobs if self._counted else ():
            policy = self._config.policy if self._is_one else self.policy_of(job)
            count = self._usage.newest(policy)
            if count is not None and policy.fairness != "none":
                owner, by_user = _OWNERS[policy.fairness](job), policy.fairness == "users"
                kind, name = ("user", job.user) if by_user else ("account", job.account)
                found[job.id] = JobOwner(kind, name, count.use.get(owner, 0.0), count.share.get(owner))
        return found

    def _others(self, job: SlurmJob, config: PolicyConfig, count: OwnerCount) -> float:
        """Return the service of the other jobs. Once it is promoted, a job counts its own service alone."""
        row = self._ledger.jobs[job.id]
        whole = count.served.get(f"{job.uid} {array_of(job.id)}" if config.attained == "array" else str(job.uid), 0.0)
        if not whole or row.reset:
            return 0.0
        runs = [(run.start, run.end or count.at, run.gpus) for run in self._ledger.runs_of(row)]
        return max(whole - service(runs, row.submit, row.reset, count.at).attained, 0.0)


_OWNERS: Mapping[str, Callable[[SlurmJob], str]] = {
    "users": lambda job: str(job.uid),
    "accounts": lambda job: job.account,
    "none": lambda job: "",
}
"""The name under which the owner of a job is counted."""
