"""Generators of load on processors and on memory: processes that work a part of the time.

    python -m tiresias.profiler.interference.load_generators cpu 0.5

A generator ends when its standard input does, so that none outlives the measurement.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

_PERIOD_S = 0.02  # of work and rest
_COPIED = 1 << 22  # doubles, 32 MiB: larger than the caches of most sockets
_PIECE = 1 << 16  # doubles copied at once
KINDS = ("cpu", "memory")


@contextmanager
def loads(cpu: float, memory: float) -> Iterator[None]:
    """Run generators for the time of the context.

    Args:
        cpu: Processors that the arithmetic ones use.
        memory: Processors that copy, each as fast as it can.
    """
    with ExitStack() as stack:
        for kind, processors in zip(KINDS, (cpu, memory), strict=True):
            for part in _parts(processors):
                stack.enter_context(_generator(kind, part))
        yield


def _parts(processors: float) -> list[float]:
    """Return the part of the time that each process works."""
    whole = int(processors)
    rest = round(processors - whole, 6)
    return [1.0] * whole + ([rest] if rest > 0.0 else [])


@contextmanager
def _generator(kind: str, part: float) -> Iterator[None]:
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, kind, str(part)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it works
        try:
            yield
        finally:
            process.kill()


def work(kind: str, part: float) -> None:
    """Work this part of the time until the standard input ends."""
    once = _arithmetic if kind == "cpu" else copies()[0]
    print("works", flush=True)
    while not select.select([sys.stdin], [], [], (1.0 - part) * _PERIOD_S)[0]:
        end = time.perf_counter() + part * _PERIOD_S
        while time.perf_counter() < end:
            once()


def _arithmetic() -> None:
    value = 1.0
    for _ in range(1000):
        value = value * 1.0000001 + 1e-9


def copies() -> tuple[Callable[[], None], float]:
    """Return a function that copies a piece of a large array, the next one each time; and the bytes read and written by it."""
    import numpy as np

    source, target = np.ones(_COPIED), np.zeros(_COPIED)
    place = 0

    def copy() -> None:
        nonlocal place
        target[place : place + _PIECE] = source[place : place + _PIECE]
        place = (place + _PIECE) % _COPIED

    return copy, 2.0 * _PIECE * source.itemsize


if __name__ == "__main__":
    work(sys.argv[1], float(sys.argv[2]))
