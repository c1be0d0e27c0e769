"""Which slabs a donor evicts: it asks for the activity of E + E' slabs and evicts the E least active (thesis, section 2.5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

Slab = TypeVar("Slab")


def eviction_candidates(slabs: Sequence[Slab], evict: int, random: Random, extra: int | None = None) -> list[Slab]:
    """Return the slabs whose activity is asked for.

    Args:
        slabs: The mapped slabs.
        evict: E, how many are to be evicted.
        random: The source of the choice.
        extra: E', how many more are asked for; at most E, which is the default.
    """
    extra = evict if extra is None else min(extra, evict)
    return random.sample(slabs, min(len(slabs), evict + extra))


def least_active(candidates: Sequence[Slab], activity: Mapping[Slab, float], evict: int) -> list[Slab]:
    """Return the `evict` least active candidates.

    A slab whose client has not answered counts as inactive: a client cannot keep memory by silence.
    """
    return sorted(candidates, key=lambda slab: activity.get(slab, 0.0))[:evict]
