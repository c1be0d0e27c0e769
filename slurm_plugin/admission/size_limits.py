"""Whether Slurm's limits allow a job another size. The controller checks them: an operator's update lifts the limits of a job.

What the job itself holds counts as free. Licences do not change with the size, and reservations concern nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from tiresias.slurm_plugin.admission.demand import minutes
from tiresias.slurm_plugin.admission.limit_table import LimitTable
from tiresias.slurm_plugin.admission.partitions import obstacle
from tiresias.slurm_plugin.admission.running import count_running
from tiresias.slurm_plugin.admission.slurm_limit import Limit
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules


class SizeLimits:
    """The limits of elastic jobs, with what all jobs hold of them. O(jobs + limits).

    Args:
        rules: Slurm's rules.
        jobs: All jobs of the snapshot.
        elastic: The elastic jobs.
        now: Epoch seconds.
    """

    def __init__(self, rules: SlurmRules, jobs: Iterable[SlurmJob], elastic: Collection[SlurmJob], now: float) -> None:
        self._rules, self._limits = rules, LimitTable(rules)
        met = {limit for job in elastic for part in _partitions(job) for limit in self._of(job, part) if limit.shared}
        holding = [job for job in jobs if job.state in ("RUNNING", "SUSPENDED") and not job.completing] if met else []
        count_running(holding, met, self._limits, now)
        self._limits.settle()

    def why_not(self, job: SlurmJob, held: SlurmJob | None) -> str:
        """Return Slurm's reason for which a job cannot have a size; "" if it can.

        Args:
            job: The job with the request of that size, without nodes.
            held: Its record while it runs; None for a waiting job.
        """
        found = [self._why_not_in(job, held, partition) for partition in _partitions(job)]
        return "" if "" in found else found[0]

    def _why_not_in(self, job: SlurmJob, held: SlurmJob | None, name: str) -> str:
        partition = self._rules.partitions.get(name)
        if partition and (why := obstacle(job, partition, self._limits.flags(name, job.qos))):
            return why
        limits, time_limit = self._of(job, name), minutes(job, partition)
        exceeded = (limit.reason for limit in limits if _exceeds(limit, job, held, time_limit))
        return next(exceeded, "")

    def _of(self, job: SlurmJob, partition: str) -> tuple[Limit, ...]:
        return self._limits.of(partition, job.user, job.account, job.qos)


def _exceeds(limit: Limit, job: SlurmJob, held: SlurmJob | None, time_limit: float) -> bool:
    amount = limit.amount(job, time_limit)
    if limit.shared and held:
        amount -= limit.amount(replace(held, shares=()), time_limit)
    return limit.exceeded(amount)


def _partitions(job: SlurmJob) -> list[str]:
    return job.partition.split(",")
