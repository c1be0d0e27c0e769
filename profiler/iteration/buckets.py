"""What an all-reduce along a ring reduces at once, from the segments that pass over one of its links.

A bucket of b bytes is cut into s segments for each of n ranks, all of the same size b / (n s), each of which passes over
each link 2 (n - 1) times in all. Gloo takes two segments a rank, and as many more as are needed for none to be longer
than SEGMENT (gloo/allreduce.cc, ring); so the number of segments follows from a segment's length.

A framework closes a bucket as soon as it holds some limit: it is longer by less than its last tensor. So the largest
bucket's tensor is shorter than it by less than the limit, and the limit is no more than the smallest full bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tiresias.profiler.iteration.contents import Contents

SEGMENT = 1 << 20  # bytes
# buckets that may hold less than the limit: the first of a backward pass, which is to leave early, and the last
PARTIAL = 2
CONTROL = 256  # bytes; shorter messages are acknowledgements, or carry data that no process waits for


class Buckets(NamedTuple):
    """Bytes; the largest tensor is shorter than the largest bucket by less than `limit`."""

    largest: float
    limit: float


def buckets(link: Contents, ranks: int) -> Buckets:
    """`link`: what one rank of a ring sends to the next."""
    sizes = sorted(_buckets(link, ranks))
    if not sizes:
        return Buckets(0.0, 0.0)
    return Buckets(sizes[-1], sizes[min(PARTIAL, len(sizes) - 1)])


def _buckets(link: Contents, ranks: int) -> Iterator[float]:
    for size, count in zip(link.sizes.tolist(), link.counts.tolist(), strict=True):
        if size > CONTROL:
            segments = max(round(count / (2 * (ranks - 1))), 1)
            alike = _alike(segments, size)
            yield from [size * ranks * segments / alike] * alike


def _alike(segments: int, size: float) -> int:
    """How many buckets of the same length they come from: one, if that explains their size."""
    whole = [count for count in range(1, segments + 1) if segments % count == 0]
    return next(count for count in whole if _explains(segments // count, size))


def _explains(segments: int, size: float) -> bool:
    """Whether a rank's part of a bucket is cut into that many segments: fewer would be too long."""
    return segments <= 2 or size * segments >= (segments - 1) * SEGMENT
