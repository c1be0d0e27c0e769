"""How much memory a donor lends: everything but what the node uses, and the headroom.

The node's use is an exponentially weighted moving average with periods of one second (thesis, section 2.5.1). An increase counts at
once, and in advance: the use is taken to grow for LOOK_AHEAD_S as fast as it grows now, because memory must be given back before a
local process needs it. A decrease counts gradually.
"""

from __future__ import annotations

from typing import NamedTuple

BETA = 0.2
PERIOD_S = 1.0
HEADROOM_SHARE = 1 / 8  # of the memory: 8 GB of 64 GB in the thesis
URGENT_SHARE = 0.5  # of the headroom: with less free memory no client is asked for activities
LOOK_AHEAD_S = 0.25
GROWTH_WINDOW_S = 0.02  # over which the growth is measured, at least
CALM_S = 2.0  # after a shortage, until slabs are allocated ahead of need again


class SlabCounts(NamedTuple):
    """The slabs of a donor.

    Attributes:
        ready: Allocated, not mapped.
        mapped: Mapped by clients.
        leaving: Of the mapped ones, those being evicted.
    """

    ready: int
    mapped: int
    leaving: int


class MemoryDecision(NamedTuple):
    """What a donor does now.

    Attributes:
        allocate: Slabs to allocate before a client maps them.
        release: Ready slabs to release.
        evict: Mapped slabs to evict in addition to those being evicted.
        urgent: The evicted slabs are released without an activity query.
    """

    allocate: int = 0
    release: int = 0
    evict: int = 0
    urgent: bool = False


class DonorMemory:
    """The memory decisions of a donor.

    Args:
        total_bytes: Memory of the node, or of the donor's cgroup.
        slab_bytes: Bytes of a slab.
        headroom_bytes: What stays free.
        most_slabs: Bound of the slabs.
        ready_slabs: How many are allocated before a client maps them.
        beta: The weight of the newest period in the average.
    """

    def __init__(
        self,
        total_bytes: int,
        slab_bytes: int,
        headroom_bytes: int,
        most_slabs: int,
        ready_slabs: int,
        beta: float = BETA,
    ) -> None:
        self._total, self._slab_bytes, self._headroom = total_bytes, slab_bytes, headroom_bytes
        self._most, self._ready, self._beta = most_slabs, ready_slabs, beta
        self._bound = most_slabs
        self._average: float | None = None
        self._expected = 0.0
        self._growth = 0.0
        self._window = (0, 0.0)
        self._averaged_at = self._measured_at = 0.0
        self._short_at = -CALM_S

    def measure(self, used_bytes: int, now: float) -> None:
        """Take a measurement of the node's use without the donor's slabs; `now` is in seconds."""
        self._measured_at = now
        if self._average is None:
            self._window = (used_bytes, now)
        elif now - self._window[1] >= GROWTH_WINDOW_S:
            self._growth = max(0.0, (used_bytes - self._window[0]) / (now - self._window[1]))
            self._window = (used_bytes, now)
        self._expected = used_bytes + self._growth * LOOK_AHEAD_S
        if self._average is None:
            self._average, self._averaged_at = float(used_bytes), now
            return
        periods = int((now - self._averaged_at) / PERIOD_S)
        if periods > 0:
            kept = (1 - self._beta) ** periods
            self._average = kept * self._average + (1 - kept) * used_bytes
            self._averaged_at += periods * PERIOD_S

    def bound(self, most_bytes: int) -> None:
        """Bound the slabs further: to what Slurm has not allocated."""
        self._bound = most_bytes // self._slab_bytes

    @property
    def average_bytes(self) -> float:
        """The average of the node's use."""
        return self._average or 0.0

    def most_slabs(self) -> int:
        """Return how many slabs there may be when slabs are added: both the average and the expected use allow it."""
        return self._slabs_beside(max(self.average_bytes, self._expected))

    def available_slabs(self, counts: SlabCounts) -> int:
        """Return how many slabs clients can map now."""
        return max(0, self.most_slabs() - counts.mapped)

    def decide(self, counts: SlabCounts) -> MemoryDecision:
        """Return what to do after the newest measurement."""
        have = counts.ready + counts.mapped - counts.leaving
        excess = have - self._slabs_beside(self._expected)
        if excess > 0:
            self._short_at = self._measured_at
            release = min(excess, counts.ready)
            evict = min(excess - release, counts.mapped - counts.leaving)
            return MemoryDecision(release=release, evict=evict, urgent=evict > 0 and self._is_urgent(counts))
        if self._measured_at - self._short_at < CALM_S:
            return MemoryDecision()
        missing = min(self.most_slabs() - have, self._ready - counts.ready)
        return MemoryDecision(allocate=max(0, missing))

    def _is_urgent(self, counts: SlabCounts) -> bool:
        own = (counts.ready + counts.mapped) * self._slab_bytes
        return self._total - self._expected - own < URGENT_SHARE * self._headroom

    def _slabs_beside(self, used_bytes: float) -> int:
        spare = self._total - self._headroom - used_bytes
        return max(0, min(self._most, self._bound, int(spare // self._slab_bytes)))
