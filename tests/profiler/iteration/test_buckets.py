"""Buckets from the segments of a ring, cut as gloo cuts them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from tiresias.profiler.iteration.buckets import SEGMENT, buckets
from tiresias.profiler.iteration.contents import Contents


def ring(sizes: list[int], ranks: int) -> Contents:
    """What a rank sends to the next in one iteration, one all-reduce for each of `sizes`."""
    sent: Counter[int] = Counter()
    for size in sizes:
        segments = max(-(-size // SEGMENT), 2 * ranks)
        segments = -(-segments // ranks)  # for each rank
        sent[-(-size // (segments * ranks * 4)) * 4] += 2 * (ranks - 1) * segments
    found = sorted(sent, reverse=True)
    counts = np.asarray([sent[size] for size in found], np.int64)
    return Contents(0, 1, np.asarray(found, float), counts, 20, 0.0)


@given(st.lists(st.integers(50_000, 500 << 20), min_size=4, max_size=30, unique=True), st.integers(2, 8))
def test_the_largest_is_found(sizes: list[int], ranks: int) -> None:
    link = ring(sizes, ranks)
    assume(len(link.sizes) == len(sizes))  # segments of the same length could come from any of several buckets
    rounding = 4 * link.counts.max()
    assert max(sizes) <= buckets(link, ranks).largest <= max(sizes) + rounding


@given(st.integers(1 << 20, 30 << 20), st.integers(1, 5), st.integers(2, 8))
def test_some_of_the_same_size_are_no_large_one(size: int, times: int, ranks: int) -> None:
    small = [50_000 + 4000 * n for n in range(4)]
    found = buckets(ring([size] * times + small, ranks), ranks)
    assert found.largest >= size
    if size < ranks << 20:  # two segments a rank
        assert found.largest <= size + 8 * ranks


def test_buckets_show_how_far_from_a_tensor_they_may_be() -> None:
    found = buckets(ring([40 << 20, 1 << 20, 26 << 20, 25 << 20, 3 << 20, 27 << 20], 4), 4)
    assert found.largest >= 40 << 20
    assert 24 << 20 <= found.limit <= 26 << 20
    assert buckets(ring([], 4), 4).largest == 0
