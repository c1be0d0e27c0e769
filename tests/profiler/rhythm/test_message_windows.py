"""Pieces of as many messages as an iteration has are composed alike; pieces of other lengths are not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tiresias.profiler.rhythm.message_windows import MessageWindows

SIZES = np.array([4096.0, 65536.0, 1048576.0])


def windows(symbols: list[int]) -> MessageWindows:
    return MessageWindows(np.asarray(symbols), SIZES)


def test_steps_of_an_all_reduce_are_no_iterations() -> None:
    steps = windows(([0] * 12 + [1] * 12 + [2] * 12) * 20)
    assert steps.evenness(36) == 1
    assert steps.evenness(3) < 0.1
    assert steps.evenness(27) < 0.9


@pytest.mark.parametrize("seed", range(5))
def test_any_order_within_an_iteration(seed: int) -> None:
    chance = random.Random(seed)
    symbols = [symbol for _ in range(40) for symbol in chance.sample([0, 1, 1, 2, 2, 2], 6)]
    assert windows(symbols).evenness(6) == 1
    assert windows(symbols).evenness(4) < 0.9


def test_too_few_to_compare() -> None:
    assert windows([0, 1, 2]).evenness(2) == 0
