"""A partition's own requirements of a job (job_limits_check and part_policy_valid_* of slurmctld)."""

from __future__ import annotations

from collections.abc import Collection

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.slurm_rules import Partition

_STATES = {"DOWN": "PartitionDown", "INACTIVE": "PartitionInactive"}  # a DRAIN partition still starts its queued jobs


def obstacle(job: SlurmJob, partition: Partition, flags: Collection[str]) -> str:
    """Return Slurm's reason for which the job cannot start in this partition; flags: of the job's QOS."""
    limit = job.time_limit or float("inf")
    if limit > partition.max_time and "PartitionTimeLimit" not in flags:
        return "PartitionTimeLimit"
    if job.min_nodes > partition.max_nodes and "PartitionMaxNodes" not in flags:
        return "PartitionNodeLimit"
    if partition.state in _STATES:
        return _STATES[partition.state]
    if not partition.admits_qos(job.qos):
        return "QOSNotAllowed"
    return "" if partition.admits_account(job.account) else "AccountNotAllowed"
