"""Which donor gets a slab: the power of two choices, with donors that hold no slab of the region before the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from random import Random

CHOICES = 2


def candidate_donors(
    donors: Collection[str], old: Collection[str], random: Random, near: Collection[str] = ()
) -> Iterator[list[str]]:
    """Yield the donors to query, in rounds of up to two (thesis, section 2.4.2).

    New donors, those without a slab of the region, are queried before old ones, and of both the near ones before the others. A
    further round is taken only where none of the round before has memory.

    Args:
        donors: The donors that can be used.
        old: Those that hold a slab of the region.
        random: The source of the choice.
        near: Those under the leaf switch of the client's node.
    """
    for is_old, is_near in ((False, True), (False, False), (True, True), (True, False)):
        group = [each for each in donors if (each in old) == is_old and (each in near) == is_near]
        random.shuffle(group)
        yield from (group[at : at + CHOICES] for at in range(0, len(group), CHOICES))


def emptiest_donor(free_slabs: Mapping[str, int]) -> str | None:
    """Return the queried donor with the most free slabs; None where none has one."""
    best = max(free_slabs, key=lambda donor: free_slabs[donor], default=None)
    return best if best is not None and free_slabs[best] > 0 else None
