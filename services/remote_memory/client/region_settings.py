"""What a client is configured with."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.services.remote_memory.slabs.slab_activity import ALPHA
from tiresias.services.remote_memory.slabs.slab_table import HOT_SLAB
from tiresias.services.wire.channel import address_of
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.handshake import KEY_BYTES
from tiresias.services.wire.peer_identity import PeerIdentity

REQUEST_BYTES = 512 << 10  # of one request to a donor; the thesis has 128 KiB (section 2.4.3)
LEAST_REQUEST_BYTES = 128 << 10


@dataclass(frozen=True)
class RegionSettings:
    """The configuration of a region.

    Attributes:
        identity: What the client is; its job's key authenticates it.
        key: The job's key: messages/job_key.py.
        donors: Addresses of donors; none is allowed, all pages are then on the disk.
        disk: Folder on the local disk for the region's file, which has no name and ends with the process.
        pages: Pages of the region.
        page_bytes: Bytes of a page.
        slab_bytes: Bytes of a slab, as the donors have it.
        hot_slab: Page requests per second from which on a slab is mapped.
        alpha: The weight of the newest second in the activity of a slab.
        queue_pages: Pages that wait for the disk; a write waits while there are more.
        disk_timeout_s: Seconds that a write waits for a place in that queue before it fails.
        donor_timeout_s: Seconds without an answer after which a donor counts as lost.
        retry_s: Seconds until a lost donor is tried again; doubled with each failure up to 60 times as long.
        near: Those of the donors that are under the leaf switch of this node; they are preferred.
        munge: Whether the user of this process is proved to donors by munge.
        promote_reads: Whether a page of a mapped slab that was read from the disk is sent to the donor.
    """

    identity: PeerIdentity
    key: bytes
    donors: tuple[str, ...]
    disk: Path
    pages: int
    page_bytes: int = mmap.PAGESIZE
    slab_bytes: int = 64 << 20
    hot_slab: float = HOT_SLAB
    alpha: float = ALPHA
    queue_pages: int = 4096
    disk_timeout_s: float = 30.0
    donor_timeout_s: float = 2.0
    retry_s: float = 0.5
    promote_reads: bool = True
    munge: bool = False
    near: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: One is impossible.
        """
        if self.pages < 1:
            raise UsageError(f"a region of {self.pages} pages; at least 1 is needed")
        if self.page_bytes < 512 or LEAST_REQUEST_BYTES % self.page_bytes:
            raise UsageError(
                f"pages of {self.page_bytes} bytes; {LEAST_REQUEST_BYTES} must be a multiple, 512 is the least"
            )
        if self.slab_bytes < self.page_bytes or self.slab_bytes % self.page_bytes:
            raise UsageError(f"slabs of {self.slab_bytes} bytes; they must be a multiple of {self.page_bytes}")
        if self.queue_pages < LEAST_REQUEST_BYTES // self.page_bytes:
            least = LEAST_REQUEST_BYTES // self.page_bytes
            raise UsageError(f"a queue of {self.queue_pages} pages; at least {least} are needed")
        if len(self.key) != KEY_BYTES:
            raise UsageError(f"a key has {KEY_BYTES} bytes, not {len(self.key)}")
        if len(set(self.donors)) != len(self.donors):
            raise UsageError("a donor is listed twice")
        if others := set(self.near) - set(self.donors):
            raise UsageError(f"{min(others)} is near, and no donor")
        for donor in self.donors:
            _check_address(donor)

    @property
    def request_pages(self) -> int:
        """The most pages of one request: they must have a place in the queue."""
        return min(REQUEST_BYTES // self.page_bytes, self.queue_pages)

    @property
    def slab_pages(self) -> int:
        """The pages of a slab."""
        return self.slab_bytes // self.page_bytes


def _check_address(donor: str) -> None:
    try:
        address_of(donor)
    except BadFrame as error:
        raise UsageError(str(error)) from None
