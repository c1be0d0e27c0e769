"""Iterations are found in made traffic of which everything is known: rings, servers, pauses, noise, and nothing at all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.profiler.iteration.contents import Contents, contents
from tiresias.profiler.placement_verdict import SURE
from tiresias.profiler.recordings.messages import Stream
from tiresias.profiler.rhythm.period import Period, find, rhythm
from tiresias.profiler.rhythm.sizes import classify
from tiresias.profiler.rhythm.spectrum import autoperiod


def stream(iterations: list[list[tuple[float, int]]], receiver: int = 1) -> Stream:
    """From (seconds, bytes) of each message of each iteration."""
    messages = sorted(message for iteration in iterations for message in iteration)
    return Stream(0, receiver, np.array([m[0] for m in messages]), np.array([m[1] for m in messages], np.int64))


def iterate(
    sizes: Sequence[int], durations: Sequence[float], burst: float = 0.3, shuffle: random.Random | None = None
) -> Stream:
    """Each iteration computes (or evaluates, if it is longer), then sends `sizes` within the share `burst` of the shortest."""
    starts = accumulate(durations, initial=0.0)
    result = []
    for start, duration in zip(starts, durations, strict=False):
        order = list(sizes)
        if shuffle:
            shuffle.shuffle(order)
        spacing = min(durations) * burst / len(order)
        result.append([(start + duration - spacing * (len(order) - n), size) for n, size in enumerate(order)])
    return stream(result)


def found(*streams: Stream) -> tuple[Period, list[Contents]]:
    """The period, which must be found, and what one iteration of each stream contains."""
    period, inside = searched(*streams)
    assert period is not None
    return period, inside


def searched(*streams: Stream) -> tuple[Period | None, list[Contents]]:
    classes = [classify(each) for each in streams]
    rhythms = [rhythm(each, own) for each, own in zip(streams, classes, strict=True)]
    period = find(streams, classes, rhythms)
    inside = [contents(*each, period.seconds) for each in zip(streams, classes, rhythms, strict=True)] if period else []
    return period, inside


LAYERS = [4096, 1 << 20, 65536, 65536, 8192, 3 << 20]


@settings(max_examples=examples(40), deadline=None)
@given(
    seconds=st.floats(0.01, 100),
    sizes=st.lists(st.integers(1000, 10**7), min_size=2, max_size=30, unique_by=lambda size: size // 3000),
    iterations=st.integers(8, 30),
    noise=st.floats(0, 0.2),
    seed=st.integers(0, 1000),
)
def test_a_repeating_sequence(seconds: float, sizes: Sequence[int], iterations: int, noise: float, seed: int) -> None:
    draw = random.Random(seed)
    durations = [seconds * (1 + noise * draw.uniform(-1, 1)) for _ in range(iterations)]
    period, (inside,) = found(iterate(sizes, durations))
    assert period.seconds == pytest.approx(float(np.median(durations)), rel=0.02 + noise / 2)
    assert inside.bytes == pytest.approx(sum(sizes), rel=0.001)
    assert abs(inside.iterations - iterations) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_tensors_that_leave_in_any_order(seed: int) -> None:
    draw = random.Random(seed)
    sizes = [1 << 20, 1 << 20, 1 << 20, 65536, 65536, 300_000, 2 << 20]
    period, (inside,) = found(iterate(sizes, [draw.gauss(1, 0.05) for _ in range(30)], shuffle=draw))
    assert period.seconds == pytest.approx(1, rel=0.05)
    assert inside.bytes == pytest.approx(sum(sizes), rel=0.01)


@pytest.mark.parametrize("every", [3, 4, 10])
def test_evaluations_in_between(every: int) -> None:
    durations = [9.0 if n % every == 0 else 1.0 + 0.01 * (n % 5) for n in range(40)]
    period, (inside,) = found(iterate(LAYERS, durations))
    assert period.seconds == pytest.approx(1.02, rel=0.05)
    assert inside.bytes == pytest.approx(sum(LAYERS), rel=0.001)


def test_checkpoints_on_the_same_connection() -> None:
    """Every fifth iteration sends everything twice."""
    plain = [[(n + 0.5 + 0.01 * k, size) for k, size in enumerate(LAYERS)] for n in range(40)]
    again = [[(n + 0.7 + 0.01 * k, size) for k, size in enumerate(LAYERS)] for n in range(0, 40, 5)]
    other = iterate(LAYERS, [1.0] * 40)._replace(receiver=2)
    period, (inside, _) = found(stream(plain + again), other)
    assert period.seconds == pytest.approx(1, rel=0.02)
    assert inside.bytes == pytest.approx(sum(LAYERS), rel=0.001)


def test_background_traffic_of_any_size() -> None:
    draw = random.Random(1)
    noise = [[(time, draw.randrange(100, 200_000)) for time in sorted(draw.uniform(0, 40) for _ in range(400))]]
    period, (inside, other) = found(iterate(LAYERS, [1.0] * 40), stream(noise, receiver=2))
    assert period.seconds == pytest.approx(1, rel=0.02)
    assert inside.bytes == pytest.approx(sum(LAYERS), rel=0.001)
    assert other.bytes == 0


@pytest.mark.parametrize("segments", [2, 6, 14])
def test_a_ring_with_one_bucket(segments: int) -> None:
    """All messages are alike: only the pauses differ."""
    period, (inside,) = found(iterate([1 << 20] * segments, [1.0] * 30, burst=0.2))
    assert period.seconds == pytest.approx(1, rel=0.05)
    assert inside.bytes == pytest.approx(segments << 20, rel=0.1)


@pytest.mark.parametrize("evaluated", [0, 10])
@pytest.mark.parametrize("seed", range(8))
def test_a_ring_of_two_on_a_busy_machine(seed: int, evaluated: int) -> None:
    """Four messages of one size, two at a time; each third step waits for a processor for up to twice the computation."""
    draw = random.Random(seed)
    clock, iterations = 0.0, []
    for number in range(30):
        clock += 0.05 + 0.5 * (evaluated > 0 and number % evaluated == 0) + delay(draw)
        iterations.append([(clock := clock + share * delay(draw), 400_206) for share in (0.5, 0.2, 1.0, 0.2)])
    _, (inside,) = found(stream(iterations))
    assert (inside.iterations, inside.bytes) == (30, 4 * 400_206)


def delay(draw: random.Random) -> float:
    return draw.expovariate(1 / 0.002) + (draw.uniform(0, 0.1) if draw.random() < 1 / 3 else 0.0)


def test_a_ring_with_buckets() -> None:
    sizes = [size for size in (500_000, 800_000, 300_000) for _ in range(6)]
    period, (inside,) = found(iterate(sizes, [1.0] * 20))
    assert period.seconds == pytest.approx(1, rel=0.01)
    assert inside.bytes == sum(sizes)


def test_slices_of_one_size_and_a_rest() -> None:
    sizes = [524288] * 200 + [1000]
    period, (inside,) = found(iterate(sizes, [1.0] * 20))
    assert period.seconds == pytest.approx(1, rel=0.01)
    assert inside.bytes == sum(sizes)


def test_random_traffic_has_no_sure_period() -> None:
    for seed in range(20):
        draw = random.Random(seed)
        period, _ = searched(stream([[(draw.uniform(0, 100), draw.randrange(1, 10**6)) for _ in range(500)]]))
        assert period is None or period.confidence < SURE / 2


def test_too_little_gives_no_period() -> None:
    assert searched()[0] is None
    period, _ = searched(stream([[(0.0, 100), (1.0, 100)]]))
    assert period is None


def test_a_counter_in_the_header_does_not_split_a_class() -> None:
    sizes = np.array([1_000_000 + n for n in range(40)] + [5000] * 40, np.int64)
    classes = classify(Stream(0, 1, np.arange(80.0), sizes))
    assert sorted(classes.count.tolist()) == [40, 40]


@pytest.mark.parametrize("seconds", [0.13, 1.0, 7.0])
def test_the_spectrum_sees_bursts(seconds: float) -> None:
    bursts = iterate([1000] * 10, [seconds] * 40, burst=0.2)
    hill = autoperiod(bursts.time, bursts.size.astype(float))
    assert hill is not None
    assert hill.seconds == pytest.approx(seconds, rel=0.03)
