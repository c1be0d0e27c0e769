"""What an aggregator reports of a job, as a JSON object.

workers        the ranks that push
memory_bytes   used, of the bound `memory_bound_bytes`
connections    the ranks that are connected
tensors        by name: state, epoch, version, bytes, updates (since the start of the process), skipped, cpu_s
moved          by name: address and epoch of the new master
"""

from __future__ import annotations

from typing import Any

from tiresias.services.parameter_service.aggregator.hosted_job import HostedJob
from tiresias.services.parameter_service.aggregator.master_copy import MasterCopy
from tiresias.services.parameter_service.aggregator.tensor_file import ACTIVE, MOVED, PREPARING, STAGED

_STATES = {ACTIVE: "active", MOVED: "moved", STAGED: "staged", PREPARING: "preparing"}


def job_statistics(job: HostedJob) -> dict[str, Any]:
    """Return the statistics of a job."""
    return {
        "workers": job.settings.workers,
        "memory_bytes": job.memory_bytes,
        "memory_bound_bytes": job.settings.memory_bytes,
        "connections": sorted(job.connections),
        "tensors": {copy.name: _tensor(copy) for copy in job.all_copies()},
        "moved": {name: {"address": each.address, "epoch": each.epoch} for name, each in job.moved.items()},
    }


def _tensor(copy: MasterCopy) -> dict[str, Any]:
    return {
        "state": "leaving" if copy.leaving else _STATES[copy.file.state],
        "epoch": copy.file.epoch,
        "version": copy.file.version,
        "bytes": copy.file.declaration.bytes,
        "updates": copy.updates,
        "skipped": copy.skipped,
        "cpu_s": copy.cpu_s,
    }
