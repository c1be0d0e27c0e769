"""A job's key for its owner: the prolog derives it from the service's key, which no user reads, and the epilog removes it."""

from __future__ import annotations

import json

from tiresias.protocol.remote_memory_use import KEY
from tiresias.services.remote_memory.job_swap.leaf_donors import near_donors_of
from tiresias.services.remote_memory.job_swap.owner_files import FileOwner, OwnerFiles
from tiresias.services.remote_memory.job_swap.swap_settings import SwapSettings
from tiresias.services.remote_memory.messages.job_key import job_key, owned_name
from tiresias.services.wire.private_files import read_service_key


def hand_over(settings: SwapSettings, job: str, owner: FileOwner, node: str, requests: bool) -> None:
    """Leave what a region of the job needs, for the job's owner.

    Args:
        settings: The node's configuration.
        job: The job's id.
        owner: Its owner.
        node: Slurm's name of this node.
        requests: Whether the job requests remote memory.

    Raises:
        UsageError: The service's key cannot be read.
    """
    if settings.service_key_file is None or not (requests or settings.keys == "all"):
        return
    name = owned_name(job, owner.uid)
    content = {
        "job": name,
        "key": job_key(read_service_key(settings.service_key_file), name).hex(),
        "donors": settings.donors,
        "near": near_donors_of(settings, node),
        "slab_mib": settings.slab_bytes >> 20,
        "munge": settings.munge,
    }
    OwnerFiles(settings.run, job, owner).put(KEY, json.dumps(content))
