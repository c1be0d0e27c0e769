"""Which jobs are managed; all others are Slurm's alone, and never changed."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.config import Config

FEDERATED = (
    1 << 26
)  # ids of a federation have the number of the cluster in the bits above; those of one cluster are smaller


@dataclass(frozen=True, slots=True)
class Scope:
    """Jobs with whole GPUs, or MIG devices, in the managed partitions, but for those of exempt users and accounts."""

    partitions: frozenset[str]
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: Config) -> Scope:
        """Return the scope of a configuration."""
        return cls(frozenset(config.partitions), frozenset(config.exempt.users), frozenset(config.exempt.accounts))

    def why_not(self, job: SlurmJob) -> str:
        """Return why the job is unmanaged; "" for a managed one.

        Jobs that may also run in other partitions, jobs in a reservation, heterogeneous jobs and jobs of a federation are Slurm's.
        """
        if job.unmanaged:
            return job.unmanaged
        if job.raw_id >= FEDERATED:
            return "it is a job of a federation, which may start on another cluster"
        if not self.partitions.issuperset(job.partition.split(",")):
            return f"partition {job.partition} is not managed (partitions)"
        if job.user in self.users:
            return f"user {job.user} is exempt (exempt.users)"
        if job.account in self.accounts:
            return f"account {job.account} is exempt (exempt.accounts)"
        if job.gpus <= 0:
            return f"it asks for a part of a GPU (gres/{job.sharing})" if job.sharing else "it asks for no GPU"
        if job.reservation:
            return f"it runs in the reservation {job.reservation}"
        return "it is part of a heterogeneous job" if job.het_id else ""
