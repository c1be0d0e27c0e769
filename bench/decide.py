"""How long one decision takes on a large cluster. One core; prints JSON.

    python bench/decide.py [--repeat 200] [--large]

Each snapshot is a busy cluster in the middle of its day: most GPUs run, some nodes are half free, a tenth of the jobs have just
ended, and far more wait than fit. `steady` is the decision of an ordinary cycle: a few jobs start and a few are preempted.
`cold` is the same cluster empty, as after a maintenance: everything that fits is started at once.
Jobs ask for 1 to 32 GPUs in the paper's mix, with CPUs and memory, a tenth for a feature or for whole nodes.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import replace

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Allocations, Jobs, Nodes, Request, Snapshot, State
from tiresias.scheduler.placement import amounts

GPUS_PER_NODE = 8
SIZES = np.repeat([1, 2, 4, 8, 16, 32], [50, 8, 17, 19, 5, 1])  # percent of the jobs, section 5.1
LOAD = 0.995  # of the GPUs are held
NOW = 1e6


def requests(count: int, gpus: np.ndarray, rng: np.random.Generator) -> tuple[Request, ...]:
    plain = Request(cpus_per_gpu=8.0, memory_per_gpu=64e3)
    special = (
        replace(plain, features=frozenset({"ib"})),
        replace(plain, cpus_per_gpu=12.0),
    )
    whole = replace(plain, gpus_per_node=GPUS_PER_NODE)
    kinds = rng.integers(0, 20, count)
    return tuple(
        special[kind] if kind < len(special) else whole if kind == 2 and size % GPUS_PER_NODE == 0 else plain
        for kind, size in zip(kinds.tolist(), gpus.tolist(), strict=True)
    )


def snapshot(jobs: int, nodes: int, busy: bool, seed: int) -> Snapshot:
    rng = np.random.default_rng(seed)
    gpus = rng.choice(SIZES, jobs)
    asked = requests(jobs, gpus, rng)
    free = np.tile(np.array((GPUS_PER_NODE, 128.0, 1e6)), (nodes, 1))
    rows = seats(gpus, asked, free) if busy else []
    running = np.zeros(jobs, bool)
    running[[row[0] for row in rows]] = True
    job, node, held, cpus, memory = np.array(rows, dtype=float).reshape(-1, 5).T
    ran = np.where(running | (rng.random(jobs) < 0.3), rng.exponential(4000.0, jobs), 0.0)
    started = np.where(ran > 0, NOW - ran - rng.exponential(3000.0, jobs), np.nan)
    submit = np.floor(np.where(ran > 0, started, NOW) - rng.exponential(2000.0, jobs))
    return Snapshot(
        NOW,
        Jobs(
            tuple(str(1000 + row) for row in range(jobs)), gpus, submit,
            np.where(running, State.RUNNING, State.WAITING).astype(np.int64), ran * gpus, ran, NOW - submit - ran,
            started, started, np.where((ran > 0) & ~running, NOW - 100.0, np.nan), rng.random(jobs) < 0.95,
            np.ones(jobs, bool), asked,
        ),
        Nodes(
            tuple(f"gpu{row:05}" for row in range(nodes)), np.full(nodes, GPUS_PER_NODE), free[:, 0].astype(np.int64),
            free[:, 1], free[:, 2], np.ones(nodes, bool), np.arange(nodes) // 32, ("",) * nodes,
            tuple(frozenset({"ib"}) if row % 2 else frozenset() for row in range(nodes)),
        ),
        Allocations(job.astype(np.int64), node.astype(np.int64), held.astype(np.int64), cpus, memory),
    )  # fmt: skip


def seats(gpus: np.ndarray, asked: tuple[Request, ...], free: np.ndarray) -> list[tuple[float, ...]]:
    """Jobs on nodes in turn until the load is reached; takes their amounts from `free`."""
    rows: list[tuple[float, ...]] = []
    node, left = 0, int(len(free) * GPUS_PER_NODE * LOAD)
    for row, size in enumerate(gpus.tolist()):
        if size > left:
            break
        left -= size
        while size:
            here = min(size, int(free[node, 0]))
            if here:
                free[node] -= amounts(asked[row], here)
                rows.append((row, node, *amounts(asked[row], here)))
                size -= here
            node += size > 0
    return rows


def measure(jobs: int, nodes: int, busy: bool, repeat: int) -> dict[str, float]:
    cases = [snapshot(jobs, nodes, busy, seed) for seed in range(5)]
    plans, seconds = [], []
    for turn in range(repeat):
        began = time.perf_counter()
        plans.append(decide(cases[turn % len(cases)], PolicyConfig(min_run=0.0)))
        seconds.append(time.perf_counter() - began)
    p50, p99 = np.percentile(seconds, (50, 99)) * 1e3
    return {
        "jobs": jobs, "nodes": nodes, "repeat": repeat, "p50_ms": round(float(p50), 2), "p99_ms": round(float(p99), 2),
        "starts": len(plans[0].starts), "reserved": len(plans[0].reserved), "preemptions": len(plans[0].preemptions),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--large", action="store_true", help="also 100,000 jobs on 16,000 nodes")
    args = parser.parse_args()
    result = {
        "steady": measure(10_000, 2_000, True, args.repeat),
        "cold": measure(10_000, 2_000, False, max(args.repeat // 10, 5)),
    }
    if args.large:
        result["steady_large"] = measure(100_000, 16_000, True, max(args.repeat // 10, 5))
        result["cold_large"] = measure(100_000, 16_000, False, 5)
    print(json.dumps({"machine": platform.processor() or platform.machine(), **result}, indent=2))


if __name__ == "__main__":
    main()
