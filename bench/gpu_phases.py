"""GPU phases of emulated workers on one real GPU: a process with a CUDA context launches small kernels on a stream for each worker.

One process, because kernels of different processes take turns on a GPU. A matrix product of 128 x 128 occupies few of its
multiprocessors, so that the phases of several workers run side by side as if each had a GPU. `report` has the measured times.
"""

from __future__ import annotations

import multiprocessing
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

SIDE, NODES = 128, 100  # of a matrix, and products in a graph
_SECONDS = struct.Struct("!d")


class GpuPhases:
    """The GPU process.

    Args:
        workers: The number of streams.

    Attributes:
        phases: The GPU phase of each worker: called with its seconds, it returns when the kernels have ended.
        report: Seconds of a phase that was requested as 0.1 s: alone, and on all streams at once.
    """

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(workers)]
        self._process = context.Process(target=_serve, args=([there for _, there in pipes],), daemon=True)
        self._process.start()
        for _, there in pipes:
            there.close()
        self._pipes = [here for here, _ in pipes]
        self.phases: list[Callable[[float], None]] = [_phase(pipe) for pipe in self._pipes]
        self.report = self._measured()

    def _measured(self) -> dict[str, float]:
        try:
            for phase in self.phases:
                phase(0.01)
        except (EOFError, OSError):
            raise SystemExit("the GPU process has ended: see its message, or use --gpu-phase sleep") from None
        found = {"requested_s": 0.1, "alone_s": _timed([self.phases[0]]), "all_s": _timed(self.phases)}
        return found | {"streams": len(self.phases)}

    def end(self) -> None:
        """End the process."""
        for pipe in self._pipes:
            pipe.close()
        self._process.join()


def _timed(phases: Sequence[Callable[[float], None]]) -> float:
    threads = [threading.Thread(target=phase, args=(0.1,)) for phase in phases]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began


def _phase(pipe: Any) -> Callable[[float], None]:
    def run(seconds: float) -> None:
        pipe.send_bytes(_SECONDS.pack(seconds))
        pipe.recv_bytes()

    return run


def _serve(pipes: list[Any]) -> None:
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device: use --gpu-phase sleep")
    streams = [_Stream(torch) for _ in pipes]
    threads = [
        threading.Thread(target=_serve_one, args=(pipe, stream)) for pipe, stream in zip(pipes, streams, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve_one(pipe: Any, stream: _Stream) -> None:
    try:
        while True:
            stream.run(_SECONDS.unpack(pipe.recv_bytes())[0])
            pipe.send_bytes(b"x")
    except (EOFError, OSError):
        return  # the benchmark has ended


class _Stream:
    """A stream with a captured graph of NODES matrix products, and the seconds that the graph takes alone."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._stream = torch.cuda.Stream()
        with torch.cuda.stream(self._stream):
            self._a, self._b = torch.rand(SIDE, SIDE, device="cuda"), torch.rand(SIDE, SIDE, device="cuda")
            self._c = torch.empty(SIDE, SIDE, device="cuda")
            torch.matmul(self._a, self._b, out=self._c)
        self._stream.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=self._stream):
            for _ in range(NODES):
                torch.matmul(self._a, self._b, out=self._c)
        self._replay(10)
        began = time.monotonic()
        self._replay(50)
        self._graph_s = (time.monotonic() - began) / 50

    def run(self, seconds: float) -> None:
        self._replay(max(round(seconds / self._graph_s), 1))

    def _replay(self, count: int) -> None:
        with self._torch.cuda.stream(self._stream):
            for _ in range(count):
                self._graph.replay()
            done = self._stream.record_event()
        done.synchronize()
