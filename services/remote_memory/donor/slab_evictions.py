"""Batch evictions: query activities, evict the least active slabs, release each when its client has answered or is late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random

from tiresias.services.remote_memory.donor.slab_pool import MappedSlab, SlabPool
from tiresias.services.remote_memory.messages.donor_messages import (
    ACTIVITY_UNIT,
    CheckActivity,
    EvictSlabs,
    ReportActivity,
)
from tiresias.services.remote_memory.slabs.batch_eviction import eviction_candidates, least_active
from tiresias.services.wire.connection import Connection


class SlabEvictions:
    """The evictions of a donor; one query at a time. All of it runs in the thread of the loop.

    Args:
        pool: The slabs.
        activity_timeout_s: Seconds until a client counts as silent in a query.
        eviction_timeout_s: Seconds after which an evicted slab is released without an answer.
        random: The source of the choice.

    Attributes:
        evicted: How many slabs were evicted.
        late: How many of them were released without an answer.
    """

    def __init__(
        self, pool: SlabPool, activity_timeout_s: float, eviction_timeout_s: float, random: Random | None = None
    ) -> None:
        self._pool = pool
        self._activity_timeout_s, self._eviction_timeout_s = activity_timeout_s, eviction_timeout_s
        self._random = random or Random()
        self._round = 0
        self._evict = 0
        self._asked: list[MappedSlab] = []
        self._activity: dict[MappedSlab, float] = {}
        self._asked_until = 0.0
        self._leaving_until: dict[MappedSlab, float] = {}
        self.evicted = self.late = 0

    @property
    def querying(self) -> bool:
        """Whether a query is not completed."""
        return self._evict > 0

    def begin(self, evict: int, now: float, urgent: bool) -> None:
        """Evict slabs: after a query, or at once where it is urgent or leaves no choice."""
        slabs = [each for each in self._pool.mapped.values() if not each.leaving]
        if urgent or evict >= len(slabs):
            self._evict = 0
            self._send_evictions(self._random.sample(slabs, min(evict, len(slabs))), now)
            if urgent:
                self._release(list(self._leaving_until))
            return
        self._round += 1
        self._evict, self._activity = evict, {}
        self._asked = eviction_candidates(slabs, evict, self._random)
        self._asked_until = now + self._activity_timeout_s
        for connection, handles in _by_connection(self._asked).items():
            connection.send(CheckActivity(self._round, handles))

    def reported(self, connection: Connection, content: ReportActivity, now: float) -> None:
        """Take the answer of a client; what is not of its own slabs or of this query is ignored."""
        if content.round != self._round or not self._evict:
            return
        for handle, activity in zip(content.handles, content.activity, strict=False):
            found = self._pool.find(connection, handle)
            if found is not None:
                self._activity[found] = activity / ACTIVITY_UNIT
        if all(each in self._activity or each.handle not in self._pool.mapped for each in self._asked):
            self._end_query(now)

    def answered(self, connection: Connection, handles: Iterable[int]) -> None:
        """Release the evicted slabs that a client uses no longer."""
        found = (self._pool.find(connection, handle) for handle in handles)
        self._release([each for each in found if each is not None and each.leaving])

    def poll(self, now: float) -> None:
        """End what is late."""
        if self._evict and now >= self._asked_until:
            self._end_query(now)
        late = [each for each, until in self._leaving_until.items() if now >= until]
        self.late += sum(each.handle in self._pool.mapped for each in late)
        self._release(late)

    def _end_query(self, now: float) -> None:
        present = [each for each in self._asked if each.handle in self._pool.mapped and not each.leaving]
        chosen = least_active(present, self._activity, self._evict)
        self._evict, self._asked = 0, []
        self._send_evictions(chosen, now)

    def _send_evictions(self, chosen: list[MappedSlab], now: float) -> None:
        self._pool.leave(chosen)
        self.evicted += len(chosen)
        for each in chosen:
            self._leaving_until[each] = now + self._eviction_timeout_s
        for connection, handles in _by_connection(chosen).items():
            connection.send(EvictSlabs(handles))

    def _release(self, slabs: list[MappedSlab]) -> None:
        for each in slabs:
            self._leaving_until.pop(each, None)
            self._pool.release(each)


def _by_connection(slabs: Iterable[MappedSlab]) -> dict[Connection, tuple[int, ...]]:
    found: dict[Connection, list[int]] = defaultdict(list)
    for each in slabs:
        found[each.connection].append(each.handle)
    return {connection: tuple(handles) for connection, handles in found.items()}
