"""What a migration costs the training, as JSON: python bench/parameter_service_migration.py [--models NAME ...] [--samples N]

Two workers train through two aggregators; their GPU phase is a sleep. A model has the parameters of torchvision's AlexNet and
VGG19, or of BERT-base, in the blocks that the agent makes (4 MiB), with SGD and momentum; its GPU phase is that of
parameter_service_rows.py.
--scale multiplies bytes and GPU phases, --stretch the phases further. Rank 0 requests migrations at the begin of an iteration,
--every iterations after the end of the one before:

    one      one block of 4 MiB, the largest size there is
    half     half of the model's blocks, to the other aggregator and back in turns
    all      all of them (table 4.3 of the thesis: 13.6 ms for AlexNet, 21.5 ms VGG19, 43.8 ms BERT)

pause_ms   by how much the iterations are longer, summed, that overlap the time from the request to the last TENSOR_COPY_DONE, and
           the one after it; against the median of the iterations without any. With median, p95 and max of the samples
longest_ms the largest part of that in one iteration
migration_ms   from the request to the last TENSOR_COPY_DONE
quiet_ms   median of the iterations without a migration; quiet_p95_ms
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from service_processes import AggregatorProcesses, EmulatedJob, Iteration, run_jobs

from tiresias.services.parameter_service.messages.aggregator_messages import (
    MigrateTensor,
    MigrationFailed,
    Subscribe,
    TensorCopyDone,
)
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import service_identity

BLOCK_BYTES = 4 << 20
WARM_UP = 5
CONVOLUTIONS = [64, 64, 128, 128, 256, 256, 256, 256, *[512] * 8]
ALEXNET = [
    (3 * 121, 64),
    (64 * 25, 192),
    (192 * 9, 384),
    (384 * 9, 256),
    (256 * 9, 256),
    (9216, 4096),
    (4096, 4096),
    (4096, 1000),
]
BERT_LAYER = [*[(768, 768)] * 4, (768, 3072), (3072, 768)]


def parameters(model: str) -> list[int]:
    """Return the number of parameters of each tensor."""
    if model == "BERT":
        embeddings = [30522 * 768, 512 * 768, 2 * 768, 768, 768]
        layer = [size for one, two in BERT_LAYER for size in (one * two, two)] + [768] * 4
        return [*embeddings, *layer * 12, 768 * 768, 768]
    layers = ALEXNET
    if model == "VGG19":
        inputs = [3, *CONVOLUTIONS[:-1]]
        layers = [(9 * one, two) for one, two in zip(inputs, CONVOLUTIONS, strict=True)]
        layers = [*layers, (25088, 4096), (4096, 4096), (4096, 1000)]
    return [size for one, two in layers for size in (one * two, two)]


GPU_PHASES_S = {"AlexNet": 0.171, "VGG19": 0.525, "BERT": 0.9}


def blocks(model: str, scale: float) -> dict[str, int]:
    """Return the bytes of each block."""
    found = {}
    for at, count in enumerate(parameters(model)):
        size = max(int(count * scale), 1) * 4
        for part, start in enumerate(range(0, size, BLOCK_BYTES)):
            found[f"t{at}#{part}"] = min(BLOCK_BYTES, size - start)
    return found


class Mover:
    """Requests the migrations in a thread, and notes when each has ended."""

    def __init__(self, service: AggregatorProcesses, names: Sequence[str], every: int) -> None:
        self._service, self._names, self._every = service, names, every
        self._place, self._next = 0, WARM_UP
        self.ended = multiprocessing.Value("i", 0)  # copies that have ended, as the parent process receives it
        self.starts = multiprocessing.SimpleQueue()
        self._begun = 0

    def before(self, at: int) -> None:
        """Rank 0, before an iteration: begin a migration if it is due."""
        if self.ended.value < self._begun * len(self._names):
            self._next = at + self._every
        if at < self._next:
            return
        self._begun, self._next = self._begun + 1, at + self._every
        self.starts.put(at)
        threading.Thread(target=self._move, args=(self._place,)).start()
        self._place = 1 - self._place

    def _move(self, place: int) -> None:
        channel = self._channel(place)
        for name in self._names:
            channel.request(MigrateTensor("job", name, self._service.addresses[1 - place], 60.0))
        channel.close()

    def _channel(self, place: int) -> Channel:
        return Channel.connect(self._service.addresses[place], service_identity("bench"), self._service.key, 600)

    def listen(self, place: int, ended: list[float], failed: list[str]) -> None:
        """Note the times of TensorCopyDone of one aggregator, until it ends."""
        channel = self._channel(place)
        channel.request(Subscribe())
        try:
            while True:
                event = channel.receive()
                if isinstance(event, TensorCopyDone):
                    ended.append(time.monotonic())
                    with self.ended.get_lock():
                        self.ended.value += 1
                elif isinstance(event, MigrationFailed):
                    failed.append(event.reason)
        except Exception:  # the aggregator has ended
            return


def measured(model: str, part: str, args: argparse.Namespace) -> dict[str, Any]:
    sizes = blocks(model, args.scale)
    names = list(sizes) if part == "all" else list(sizes)[::2]
    if part == "one":
        names = [max(sizes, key=lambda name: sizes[name])]
    ended: list[float] = []
    failed: list[str] = []
    with AggregatorProcesses(2, 12 * sum(sizes.values())) as service:
        placed = {name: 0 if part == "all" or name in names else at % 2 for at, name in enumerate(sizes)}
        identity = service.job("job", 2, {**placed, "": 1})  # both have the job
        mover = Mover(service, names, args.every)
        for place in (0, 1):
            threading.Thread(target=mover.listen, args=(place, ended, failed), daemon=True).start()
        job = EmulatedJob(identity, sizes, 2, GPU_PHASES_S[model] * args.scale * args.stretch, before=mover.before)
        iterations = run_jobs([job], WARM_UP + args.samples * (args.every + 4))[0]
    moved = sum(sizes[name] for name in names)
    found = {"blocks": len(sizes), "moved": len(names), "moved_mb": moved / 1e6, "copied_mb": 2 * moved / 1e6}
    starts = []
    while not mover.starts.empty():
        starts.append(mover.starts.get())
    return found | report(iterations, sorted(ended), len(names), starts) | {"failed": failed[:3]}


def report(iterations: list[Iteration], ended: list[float], count: int, starts: list[int]) -> dict[str, Any]:
    starts = starts[: len(ended) // count]  # the last migration may not have ended
    spans = [(at, iterations[at].begin, ended[(number + 1) * count - 1]) for number, at in enumerate(starts)]
    touched: dict[int, list[int]] = {}
    for at, _, end in spans:
        last = next((number for number in range(at, len(iterations)) if iterations[number].begin > end), at + 1)
        touched[at] = [number for number in range(at, last + 1) if number < len(iterations)]
    moving = {number for each in touched.values() for number in each}
    quiet = [each.end - each.begin for at, each in enumerate(iterations) if at >= WARM_UP and at not in moving]
    usual = statistics.median(quiet)
    extra = [[1e3 * (iterations[at].end - iterations[at].begin - usual) for at in each] for each in touched.values()]
    return {
        "samples": len(spans), "quiet_ms": 1e3 * usual, "quiet_p95_ms": 1e3 * quantile(quiet, 0.95),
        "gpu_phase_ms": 1e3 * statistics.median(each.pushed - each.begin for each in iterations),
        "pause_ms": summary([sum(each) for each in extra]), "longest_ms": summary([max(each) for each in extra]),
        "migration_ms": summary([1e3 * (end - begin) for _, begin, end in spans]),
        "iterations": statistics.median(map(len, extra)),
    }  # fmt: skip


def summary(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "p95": quantile(values, 0.95), "max": max(values)}


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[*GPU_PHASES_S], choices=[*GPU_PHASES_S])
    parser.add_argument("--parts", nargs="+", default=["one", "half"], choices=["one", "half", "all"])
    parser.add_argument("--samples", type=int, default=10, help="migrations of each where one takes 4 iterations; 10")
    parser.add_argument("--every", type=int, default=8, help="iterations from one migration to the next; 8")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of bytes and GPU phases; 1")
    parser.add_argument("--stretch", type=float, default=1.0, help="further factor of the GPU phases; 1")
    args = parser.parse_args()
    result: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "scale": args.scale,
        "stretch": args.stretch,
    }
    for model in args.models:
        result[model] = {part: measured(model, part, args) for part in args.parts}
        print(f"{model}: done", file=sys.stderr, flush=True)
    print(json.dumps(result | {"load_after": os.getloadavg()[0]}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
