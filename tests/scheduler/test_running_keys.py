"""`RunningKeys` sorts only the last keys; what it returns is what a list of all sorted keys has."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tiresias.scheduler.running_keys import RunningKeys


@pytest.mark.parametrize("seed", range(20))
def test_keys_are_read_in_the_order_of_all_of_them(seed: int) -> None:
    """Hundreds of keys, so that the first ones are not sorted, and walks of different depths."""
    draw, running, stored = random.Random(seed), RunningKeys(), dict[int, tuple[float, int]]()
    for _ in range(3000):
        row = draw.randrange(600)
        if draw.random() < 0.5:  # else a key that it has is replaced
            assert running.remove(row) == (stored.pop(row, None) is not None)
        if row not in stored or draw.random() < 0.8:
            stored[row] = draw.choice([0.0, draw.random(), 1.0]), row
            running.add(row, stored[row])
        if draw.random() < 0.1:
            depth = draw.choice([1, 3, 50, len(stored)])
            expected = sorted(stored.values(), reverse=True)[:depth]
            assert [running.from_last(place) for place in range(len(expected))] == expected
    assert len(running) == len(stored)


def test_drifting_keys_come_before_the_stored_ones() -> None:
    running = RunningKeys()
    running.add(7, (0, 0.0, 7))
    running.drift(20, lambda: [np.zeros(20, np.int64), np.arange(20.0)[::-1], np.arange(20)])
    assert len(running) == 21
    assert running.from_last(0) == (0, 0.0, 7)
    assert [running.from_last(place)[-1] for place in range(1, 21)] == list(range(20))
