"""The store of a swap with donors: a region of the client (client/remote_pages.py)."""

from __future__ import annotations

import os
import zlib
from typing import Any

from tiresias.errors import UsageError
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.client.remote_pages import RemotePages
from tiresias.services.remote_memory.job_swap.swap_area import PAGE_BYTES
from tiresias.services.remote_memory.job_swap.swap_settings import SwapSettings
from tiresias.services.remote_memory.messages.job_key import job_key
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.private_files import read_service_key


class RegionStore:
    """Pages on donors, with copies on local disk.

    Args:
        settings: The region's.
    """

    def __init__(self, settings: RegionSettings) -> None:
        self._region = RemotePages(settings)

    def read(self, offset: int, into: memoryview) -> None:
        """Fill `into`."""
        self._region.read_into(offset // PAGE_BYTES, into)

    def write(self, offset: int, data: memoryview) -> None:
        """Store `data`."""
        self._region.write(offset // PAGE_BYTES, data)

    def statistics(self) -> dict[str, Any]:
        """Return the region's counters, and the bytes that each donor has lent."""
        found = self._region.statistics()
        size = self._region.settings.slab_bytes
        return {**found, "lent": {donor: slabs * size for donor, slabs in found["donor_slabs"].items()}}

    def close(self) -> None:
        """End the region."""
        self._region.close()


def open_region(job: str, size: int, settings: SwapSettings, near: tuple[str, ...] = ()) -> RegionStore:
    """Return the store of a job's swap.

    Args:
        job: The job's number.
        size: Bytes of the swap.
        settings: The node's configuration.
        near: The donors that are preferred.

    Raises:
        UsageError: The service's key is missing.
    """
    if settings.service_key_file is None:
        raise UsageError("service_key_file is missing; donors need it")
    key = job_key(read_service_key(settings.service_key_file), job)
    identity = agent_identity(job, zlib.crc32(os.uname().nodename.encode()) % 1_000_000, 0)  # a number of this node
    return RegionStore(
        RegionSettings(
            identity,
            key,
            settings.donors,
            settings.disk,
            size // PAGE_BYTES,
            slab_bytes=settings.slab_bytes,
            munge=settings.munge,
            near=near,
        )
    )
