"""The process: a thread that serves clients, and one that measures the node's memory, and allocates and releases slabs."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.donor.client_requests import ClientRequests
from tiresias.services.remote_memory.donor.donor_settings import DonorSettings
from tiresias.services.remote_memory.donor.lent_slab import LentSlab
from tiresias.services.remote_memory.donor.node_memory import NodeMemory, memory_reader
from tiresias.services.remote_memory.donor.slab_evictions import SlabEvictions
from tiresias.services.remote_memory.donor.slab_memory_thread import SlabMemoryThread
from tiresias.services.remote_memory.donor.slab_pool import SlabPool
from tiresias.services.remote_memory.donor.slurm_allocation import SlurmAllocation
from tiresias.services.remote_memory.donor.user_proofs import UserProofs
from tiresias.services.remote_memory.messages.donor_messages import DonorStatistics, ProveUser, ReadDonorStatistics
from tiresias.services.remote_memory.messages.job_key import job_key
from tiresias.services.remote_memory.slabs.donor_memory import DonorMemory
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.peer_identity import PeerIdentity
from tiresias.services.wire.server_loop import ServerLoop, listening

OOM_SCORE = (
    "1000"  # where the node has no memory left the kernel ends the donor first: its clients read from their disks
)


class Donor:
    """A donor with its threads; the handler of the loop.

    Args:
        settings: Its configuration.

    Attributes:
        address: Where it listens, as host:port.
    """

    def __init__(self, settings: DonorSettings) -> None:
        self._settings = settings
        self._read_memory = memory_reader(settings.memory)
        measured = self._read_memory()
        self._decisions = DonorMemory(
            measured.total_bytes,
            settings.slab_bytes,
            settings.headroom_bytes,
            settings.most_slabs,
            settings.ready_slabs,
        )
        self._decisions.measure(measured.total_bytes - measured.available_bytes, time.monotonic())
        self._memory = SlabMemoryThread(settings.slab_bytes, self._measure, settings.poll_s)
        self._pool = SlabPool(self._memory)
        self._evictions = SlabEvictions(self._pool, settings.activity_timeout_s, settings.eviction_timeout_s)
        self._requests = ClientRequests(
            settings, self._pool, self._memory, self._evictions, self._available, lambda: self._loop
        )
        server = listening(settings.host, settings.port)
        self.address = f"{settings.host}:{server.getsockname()[1]}"
        self._loop = ServerLoop(self, server, settings.stall_timeout_s, name="remote memory")
        self._loop.protect = settings.protect
        self._proofs = UserProofs(settings.munge, lambda: self._loop)
        self._unallocated: int | None = None
        self._slurm = None
        if settings.slurm_node:
            self._slurm = SlurmAllocation(settings.slurm_node, self._allocated, poll_s=settings.slurm_poll_s)
        self._lowest_available = measured.available_bytes
        self._available_bytes = measured.available_bytes
        self._preallocating = 0

    def run(self) -> None:
        """Serve until stop()."""
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
        thread = threading.Thread(target=self._memory.run)
        thread.start()
        if self._slurm:
            self._slurm.start()
        if self._settings.announce:
            _announce(self._settings.announce, {"address": self.address, "pid": os.getpid()})
        try:
            self._loop.run()
        finally:
            if self._slurm:
                self._slurm.stop()
            self._proofs.stop()
            self._memory.stop()
            thread.join()

    def stop(self) -> None:
        """End run(); a signal handler may call it."""
        self._loop.stop()

    # -- the node's memory ------------------------------------------------------------------------------------------------------

    def _measure(self, held: int) -> None:
        """Measure; runs in the thread of the slabs' memory."""
        try:
            measured = self._read_memory()
        except (OSError, ValueError) as error:
            log_line(f"remote memory: {self._settings.memory}: {error}")
        else:
            self._loop.call(partial(self._measured, measured, held, time.monotonic()))

    def _allocated(self, unallocated: int) -> None:
        """Take how much Slurm has not allocated; runs in a thread of its own."""

        def bound() -> None:
            self._unallocated = unallocated
            self._decisions.bound(unallocated)

        self._loop.call(bound)

    def _measured(self, measured: NodeMemory, held: int, now: float) -> None:
        self._available_bytes = measured.available_bytes
        self._lowest_available = min(self._lowest_available, measured.available_bytes)
        self._decisions.measure(max(0, measured.total_bytes - measured.available_bytes - held), now)
        self._evictions.poll(now)
        decision = self._decisions.decide(self._pool.counts())
        if decision.release:
            self._pool.release_ready(decision.release)
        if decision.evict and (decision.urgent or not self._evictions.querying):
            self._evictions.begin(decision.evict, now, decision.urgent)
        for _ in range(decision.allocate - self._preallocating - self._requests.mapping):
            self._preallocating += 1
            self._memory.allocate(lambda slab: self._loop.call(lambda: self._preallocated(slab)))

    def _preallocated(self, slab: LentSlab | None) -> None:
        self._preallocating -= 1
        if slab is not None:
            self._pool.add_ready(slab)

    def _available(self) -> int:
        return self._decisions.available_slabs(self._pool.counts())

    # -- the handler of the loop ------------------------------------------------------------------------------------------------

    def key_of(self, identity: PeerIdentity) -> bytes | None:
        """Return the key of a job or of the service."""
        return job_key(self._settings.service_key, identity.job) if identity.job else self._settings.service_key

    def joined(self, connection: Connection) -> None:
        """Accept any client that has its job's key."""

    def place(self, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        """Return the memory for pages."""
        self._proofs.check(connection)
        return self._requests.place(connection, content, payload_bytes)

    def received(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        """Carry out a request."""
        if isinstance(content, ReadDonorStatistics):
            if connection.identity is None or connection.identity.job:
                raise BadFrame(f"{connection.peer}: statistics are for the service")
            connection.send(DonorStatistics(self.statistics()))
        elif isinstance(content, ProveUser):
            self._proofs.received(connection, content)
        else:
            self._proofs.check(connection)
            self._requests.received(connection, content, payload)

    def closed(self, connection: Connection) -> None:
        """Release the slabs of a connection that has ended."""
        self._proofs.closed(connection)
        self._requests.closed(connection)

    def statistics(self) -> dict[str, Any]:
        """Return the statistics.

        `lowest_available_bytes` is the least memory that a measurement found available; `late` counts the slabs that were released
        before their client had answered.
        """
        counts = self._pool.counts()
        return {
            "pid": os.getpid(),
            "ready": counts.ready,
            "mapped": counts.mapped,
            "leaving": counts.leaving,
            "unallocated_bytes": self._unallocated,
            "available_slabs": self._available(),
            "slab_bytes": self._settings.slab_bytes,
            "held_bytes": self._memory.held_bytes,
            "available_bytes": self._available_bytes,
            "lowest_available_bytes": self._lowest_available,
            "evicted": self._evictions.evicted,
            "late": self._evictions.late,
            "read_bytes": self._requests.read_bytes,
            "written_bytes": self._requests.written_bytes,
            "clients": len({each.connection for each in self._pool.mapped.values()}),
        }


def _announce(path: Path, content: dict[str, Any]) -> None:
    """Replace a file at once, readable by this user alone."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.touch(mode=0o600)
    new.write_text(json.dumps(content))
    new.rename(path)
