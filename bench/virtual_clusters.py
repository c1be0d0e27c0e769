"""Times of `schedule` and `delete` on virtual clusters: 16,000 nodes of 8 GPUs, 100 VCs, at several loads.

    python bench/virtual_clusters.py [--nodes 16000] [--vcs 100] [--events 4000] [--json FILE]

Two hierarchies: flat (each node a topmost cell) and racks (8 nodes a rack, 8 racks a pod). Each VC owns an equal share as nodes,
sockets and GPUs; in racks also as racks. 70% of the gangs have one GPU, 4% more than one node. The cluster is filled to the stated
load of guaranteed gangs, opportunistic ones take half of the rest, and then each event deletes a random gang and schedules another
one. Milliseconds of this process on a processor, of single calls; `max_without_gc_ms` leaves out Python's garbage collector, which
visits what has been allocated lately and the cells to which that refers.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiresias.scheduler.virtual_clusters.gang_requests import GangRequest, PreemptGangs
from tiresias.scheduler.virtual_clusters.specification import (
    CellSpecification,
    CellType,
    DeclaredCell,
    DeclaredVirtualCluster,
    OwnedCells,
)
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters

SIZES = ((1, 0.70), (2, 0.10), (4, 0.08), (8, 0.08), (16, 0.025), (32, 0.01), (64, 0.005))  # GPUs, share of the jobs
BELOW_NODE = {
    "PAIR": CellType("GPU", 2),
    "SOCKET": CellType("PAIR", 2),
    "NODE": CellType("SOCKET", 2, is_node=True),
}


def flat(nodes: int, vcs: int) -> CellSpecification:
    cells = tuple(DeclaredCell("NODE", f"n{number}") for number in range(nodes))
    each = nodes // vcs
    owned = (
        OwnedCells("NODE", each * 6 // 8),
        OwnedCells("NODE.SOCKET", each * 2 // 8),
        OwnedCells("NODE.SOCKET.PAIR.GPU", each * 8 // 8),
    )
    return CellSpecification(BELOW_NODE, cells, {f"vc{vc}": DeclaredVirtualCluster(owned) for vc in range(vcs)})


def racks(nodes: int, vcs: int) -> CellSpecification:
    types = {**BELOW_NODE, "RACK": CellType("NODE", 8), "POD": CellType("RACK", 8)}

    def pod(at: int) -> DeclaredCell:
        rows = [[DeclaredCell(address=f"n{at * 64 + rack * 8 + node}") for node in range(8)] for rack in range(8)]
        return DeclaredCell("POD", children=tuple(DeclaredCell(children=tuple(row)) for row in rows))

    each = nodes // vcs
    owned = (
        OwnedCells("POD.RACK", each // 16),
        OwnedCells("POD.RACK.NODE", each * 2 // 8),
        OwnedCells("POD.RACK.NODE.SOCKET", each * 2 // 8),
        OwnedCells("POD.RACK.NODE.SOCKET.PAIR.GPU", each * 4 // 8),
    )
    clusters = {f"vc{vc}": DeclaredVirtualCluster(owned) for vc in range(vcs)}
    return CellSpecification(types, tuple(pod(at) for at in range(nodes // 64)), clusters)


class CollectorTime:
    """The time that the garbage collector has used: seconds of this process on a processor."""

    def __init__(self) -> None:
        self.seconds = self._start = 0.0
        gc.callbacks.append(self._count)

    def _count(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._start = time.process_time()
        else:
            self.seconds += time.process_time() - self._start


class Load:
    """Gangs that start and end, with the time of each call."""

    def __init__(self, spec: CellSpecification, seed: int) -> None:
        self.rng, self.number = random.Random(seed), 0
        self.clusters = VirtualClusters(spec)
        self.vcs = list(spec.virtual_clusters)
        self.collector = CollectorTime()
        self.forget_times()
        self.decisions: Counter[str] = Counter()
        self.running: list[str] = []

    def forget_times(self) -> None:
        self.times: dict[str, list[float]] = {"schedule": [], "delete": []}
        self.longest = dict.fromkeys(self.times, 0.0)  # without the garbage collector

    def request(self, *, guaranteed: bool) -> GangRequest:
        self.number += 1
        gpus = self.rng.choices([size for size, _ in SIZES], [share for _, share in SIZES])[0]
        members = ((gpus // 8, 8),) if gpus > 8 else ((1, gpus),)
        priority = self.rng.randint(0, 2) if guaranteed else -1
        return GangRequest(
            f"g{self.number}", self.rng.choice(self.vcs), priority, members, lazy_preemption=self.number % 2 == 0
        )

    def schedule(self, *, guaranteed: bool) -> None:
        request = self.request(guaranteed=guaranteed)
        decision = self.timed("schedule", lambda: self.clusters.schedule(request))
        self.decisions[type(decision).__name__] += 1
        if isinstance(decision, PreemptGangs):
            for victim in decision.victims:
                self.delete(victim)
            self.timed("schedule", lambda: self.clusters.schedule(request))
        if request.gang in self.clusters.groups:
            self.running.append(request.gang)

    def delete(self, gang: str) -> None:
        self.timed("delete", lambda: self.clusters.delete(gang))

    def delete_random(self) -> None:
        at = self.rng.randrange(len(self.running))
        self.running[at], gang = self.running[-1], self.running[at]
        self.running.pop()
        self.delete(gang)

    def timed(self, name: str, call: Callable[[], Any]) -> Any:
        start, collected = time.process_time(), self.collector.seconds
        result = call()
        self.times[name].append(time.process_time() - start)
        self.longest[name] = max(self.longest[name], self.times[name][-1] - self.collector.seconds + collected)
        return result

    def used(self) -> int:
        return sum(sum(group.request.sizes) for group in self.clusters.groups.values())


def measure(spec: CellSpecification, load: float, events: int, seed: int, gpus: int) -> dict[str, Any]:
    start = time.process_time()
    run = Load(spec, seed)
    build = time.process_time() - start
    used = 0
    target = int(gpus * (load + (1 - load) / 2))
    while used < target:
        for _ in range(2000):
            run.schedule(guaranteed=run.rng.random() < load / (load + (1 - load) / 2))
        before, used = used, run.used()
        if used - before < 200:
            break
    run.forget_times()
    run.decisions.clear()
    gc.collect()
    gc.freeze()
    for _ in range(events):
        run.delete_random()
        run.schedule(guaranteed=run.rng.random() < 0.7)
    result: dict[str, Any] = {
        "used": round(run.used() / gpus, 3),
        "build_s": round(build, 2),
        "decisions": dict(run.decisions),
    }
    for name, times in run.times.items():
        times.sort()
        result[name] = {
            key: round(times[min(len(times) - 1, int(len(times) * share))] * 1e3, 3)
            for key, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0))
        } | {"max_without_gc_ms": round(run.longest[name] * 1e3, 3)}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16_000)
    parser.add_argument("--vcs", type=int, default=100)
    parser.add_argument("--events", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loads", type=float, nargs="+", default=[0.3, 0.9])
    parser.add_argument("--hierarchies", nargs="+", default=["flat", "racks"])
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name in options.hierarchies:
        spec = {"flat": flat, "racks": racks}[name](options.nodes, options.vcs)
        for load in options.loads:
            results[f"{name}, load {load}"] = measure(spec, load, options.events, options.seed, options.nodes * 8)
    found = {"machine": platform.processor() or platform.machine(), "python": platform.python_version()}
    text = json.dumps(
        {**found, "nodes": options.nodes, "vcs": options.vcs, "events": options.events, **results}, indent=1
    )
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
