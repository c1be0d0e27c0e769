"""Durations of iterations: of a worker and a server that exchange one model, with all that may come in between."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tiresias.profiler.recordings.messages import Stream
from tiresias.profiler.rhythm.iteration_time import iteration_time
from tiresias.profiler.rhythm.period import rhythm
from tiresias.profiler.rhythm.sizes import classify

LAYERS = [3 << 20, 65536, 65536, 8192, 1 << 20, 4096]
COMPUTE = 0.1


class Exchange:
    """The worker is node 0, the server node 1; `seconds` of each iteration."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.now = chance, 0.0
        self.sent: list[tuple[float, int]] = []
        self.got: list[tuple[float, int]] = []
        self.seconds: list[float] = []

    def iterate(self) -> None:
        start = self.now
        self.now += COMPUTE * self.chance.uniform(0.95, 1.05)
        self._transfer(self.sent)
        self.now += self.chance.expovariate(1 / 0.03)  # others are late
        self._transfer(self.got)
        self.seconds.append(self.now - start)

    def save(self) -> None:
        self._transfer(self.got)
        self.now += 3 * COMPUTE

    def _transfer(self, way: list[tuple[float, int]]) -> None:
        for size in LAYERS:
            self.now += 0.001
            way.append((self.now, size))

    def measured(self) -> float | None:
        streams = [_stream(0, 1, self.sent), _stream(1, 0, self.got)]
        classes = [classify(each) for each in streams]
        rhythms = [rhythm(*each) for each in zip(streams, classes, strict=True)]
        return iteration_time(streams, classes, rhythms, float(np.median(self.seconds)))


def _stream(sender: int, receiver: int, messages: list[tuple[float, int]]) -> Stream:
    return Stream(sender, receiver, np.array([m[0] for m in messages]), np.array([m[1] for m in messages], np.int64))


@pytest.mark.parametrize("seed", range(5))
def test_the_median_iteration(seed: int) -> None:
    job = Exchange(random.Random(seed))
    for _ in range(31):
        job.iterate()
    assert job.measured() == pytest.approx(np.median(job.seconds), rel=0.04)


@pytest.mark.parametrize("seed", range(5))
def test_evaluations_and_checkpoints_are_left_out(seed: int) -> None:
    job = Exchange(random.Random(seed))
    for step in range(1, 61):
        job.iterate()
        if step % 4 == 0:
            job.now += 8 * COMPUTE
        if step % 5 == 0:
            job.save()
    assert job.measured() == pytest.approx(np.median(job.seconds), rel=0.05)


def test_without_a_rhythm_nothing_is_measured() -> None:
    one = _stream(0, 1, [(float(n), 1000) for n in range(40)])
    assert iteration_time([one], [classify(one)], [None], 1.0) is None


def test_a_light_stream_does_not_count() -> None:
    """A process that wakes itself up while the job begins may do that as regularly as others train, by chance."""
    heavy = _stream(0, 1, [(0.1 * n, 1 << 20) for n in range(40)])
    light = _stream(
        0, 0, [(0.08 * n + 0.001 * place, size) for n in range(13) for place, size in enumerate((1, 9, 14))]
    )
    classes = [classify(heavy), classify(light)]
    rhythms = [None, rhythm(light, classes[1])]
    assert rhythms[1]
    assert iteration_time([light], classes[1:], rhythms[1:], 0.1) == pytest.approx(0.08, rel=0.05)
    assert iteration_time([heavy, light], classes, rhythms, 0.1) is None
