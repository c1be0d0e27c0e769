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
    if _refuses(job.qos, partition.allow_qos, partition.deny_qos):
        return "QOSNotAllowed"
    return "AccountNotAllowed" if _refuses(job.account, partition.allow_accounts, partition.deny_accounts) else ""


def _refuses(name: str, allowed: Collection[str] | None, denied: Collection[str]) -> bool:
    """Return whether a partition refuses an account or a QOS. A list of allowed names replaces the list of denied ones."""
    if not name:
        return False
    return name not in allowed if allowed is not None else name in denied
