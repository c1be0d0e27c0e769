"""Measures reference steps beside generators of load on one socket of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiresias.profiler.interference.load_generators import copies, loads
from tiresias.profiler.interference.reference_steps import ReferenceStep

_WARM_UP_STEPS = 2
_LEAST_STEPS = 3


class CalibrationSample(NamedTuple):
    """One measured step time; the columns of `tiresias interference fit`.

    Attributes:
        seconds: Mean of the steps beside the generators.
        seconds_alone: Mean of the steps just before, alone.
        cpu: Processors that the step uses alone, as a part of the socket's.
        cpu_same_socket: The same of the generators.
        memory: Memory bandwidth that the step uses alone, as a part of the socket's.
        memory_others: The same of the generators.
    """

    seconds: float
    seconds_alone: float
    cpu: float
    cpu_same_socket: float
    memory: float
    memory_others: float


class LoadLevels(NamedTuple):
    """Generators beside the steps, as parts of the socket's processors; each with each other, but not none."""

    cpu: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
    memory: tuple[float, ...] = (0.0, 0.5, 1.0)

    def pairs(self) -> list[tuple[float, float]]:
        """Return the combinations."""
        return [pair for pair in product(self.cpu, self.memory) if any(pair)]


class MemoryBandwidth(NamedTuple):
    """Bytes a second that are copied: by one process alone, and by one on each processor of the socket together."""

    alone: float
    together: float


def socket_processors() -> list[int]:
    """Return the processors of the socket of the first processor that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return [each for each in allowed if _package(each) == _package(allowed[0])]


def _package(processor: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{processor}/topology/physical_package_id").read_text().strip()
    except OSError:
        return ""  # a kernel without it: all are taken as one socket


def memory_bandwidth(processors: int, seconds: float) -> MemoryBandwidth:
    """Return the bandwidth of copies on this socket."""
    copy, moved = copies()
    alone = moved / _timed(copy, seconds).seconds
    with loads(0.0, processors - 1.0):
        together = processors * moved / _timed(copy, seconds).seconds
    return MemoryBandwidth(alone, max(together, alone))


def samples(
    steps: Sequence[ReferenceStep],
    levels: LoadLevels,
    processors: int,
    seconds: float,
    seed: int,
    bandwidth: MemoryBandwidth,
) -> Iterator[CalibrationSample]:
    """Yield a sample of each step beside each level of load, in random order, so that a drift is no effect of a level.

    Args:
        steps: The reference steps.
        levels: The loads.
        processors: Those of the socket.
        seconds: Of each measurement.
        seed: Of the order.
        bandwidth: That of the socket.
    """
    plan = list(product(steps, levels.pairs()))
    for place in np.random.default_rng(seed).permutation(len(plan)).tolist():
        step, (cpu, memory) = plan[place]
        alone = _timed(step.run, seconds)
        with loads(cpu * processors, memory * processors):
            beside = _timed(step.run, seconds)
        yield CalibrationSample(
            beside.seconds,
            alone.seconds,
            min(alone.processors / processors, 1.0),
            cpu + memory,
            step.moved / alone.seconds / bandwidth.together,
            memory * processors * bandwidth.alone / bandwidth.together,
        )


class _Timing(NamedTuple):
    """Mean seconds of a step, and processors used.

    A step that is shorter than a time slice of the kernel is either not interrupted at all, or for several slices. So the median is
    that of a step alone, or many times as long, where the mean is what a training waits for.
    """

    seconds: float
    processors: float


def _timed(run: Callable[[], None], seconds: float) -> _Timing:
    for _ in range(_WARM_UP_STEPS):
        run()
    count, began, used = 0, time.perf_counter(), time.process_time()
    while count < _LEAST_STEPS or time.perf_counter() - began < seconds:
        run()
        count += 1
    lasted = time.perf_counter() - began
    return _Timing(lasted / count, (time.process_time() - used) / lasted)
