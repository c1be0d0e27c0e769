"""The region of a job whose key the prolog has handed to the job's owner.

settings = job_region_settings(Path("/local/scratch"), pages=1 << 20)
with RemotePages(settings) as region: ...
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.protocol.remote_memory_use import KEY, NODE_FOLDER, folder_of
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.private_files import private_json


def job_region_settings(
    disk: Path, pages: int, run: Path = Path(NODE_FOLDER), environment: Mapping[str, str] = os.environ, **options: Any
) -> RegionSettings:
    """Return the configuration of a region of this job: its key and donors are those that this node's prolog has left.

    Args:
        disk: Folder on the local disk.
        pages: Pages of the region.
        run: The folder of the node's own files, `run` of its configuration.
        environment: Slurm's variables of the job.
        options: Of RegionSettings.

    Raises:
        UsageError: This is no job, or the prolog has left no key.
    """
    job = environment.get("SLURM_JOB_ID", "")
    if not job:
        raise UsageError("SLURM_JOB_ID is not set: the key of a region belongs to a job")
    file = folder_of(run, job) / KEY
    if not file.exists():
        raise UsageError(f"{file}: this node's prolog has left no key for job {job}: docs/how-to/remote-memory.md")
    content = private_json(file)
    try:
        identity = agent_identity(
            content["job"], _number(environment, "SLURM_PROCID"), _number(environment, "SLURM_RESTART_COUNT")
        )
        key, donors = bytes.fromhex(content["key"]), tuple(content["donors"])
        given = {
            "slab_bytes": content["slab_mib"] << 20,
            "munge": bool(content["munge"]),
            "near": tuple(content["near"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file}: {error!r}") from error
    return RegionSettings(identity, key, donors, disk, pages, **(given | options))


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else 0
