"""How long one decision takes on a large cluster. One core; prints JSON.

    python bench/decide.py [--repeat 200] [--large]

steady  an ordinary cycle of a full cluster: 1% of the running jobs have ended, as many have come, 1% have sunk a queue, and far
        more wait than fit
storm   running jobs were chosen without regard to the policy, as when it is first switched on: half of them have to go
cold    an empty cluster, as after a maintenance: everything that fits is started at once

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
from tiresias.scheduler.model import Allocations, Jobs, JobState, Nodes, Request, Snapshot
from tiresias.scheduler.place.free_capacity import amounts
from tiresias.scheduler.pools import rows_of
from tiresias.scheduler.resources import Resources, joined
from tiresias.scheduler.topology_tree import Topology

GPUS_PER_NODE, NODES_OF_A_LEAF, LEAVES_OF_A_POD = 8, 32, 16
SIZES = np.repeat([1, 2, 4, 8, 16, 32], [50, 8, 17, 19, 5, 1])  # percent of the jobs, section 5.1
LOAD = 0.995  # of the GPUs are held
NOW = 1e6
CONFIG = PolicyConfig("las", min_run=0.0, min_run_cost_factor=0.0)


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
    rows = placements(gpus, asked, free) if busy else []
    running = np.zeros(jobs, bool)
    running[[row[0] for row in rows]] = True
    job, node, held, cpus, memory = np.array(rows, dtype=float).reshape(-1, 5).T
    ran = np.where(running | (rng.random(jobs) < 0.3), rng.exponential(4000.0, jobs), 0.0)
    started = np.where(ran > 0, NOW - ran - rng.exponential(3000.0, jobs), np.nan)
    submit = np.floor(np.where(ran > 0, started, NOW) - rng.exponential(30_000.0, jobs))
    return Snapshot(
        NOW,
        Jobs(
            tuple(str(1000 + row) for row in range(jobs)), gpus, submit,
            np.where(running, JobState.RUNNING, JobState.WAITING).astype(np.int64), ran * gpus, ran, NOW - submit - ran,
            started, started, np.where((ran > 0) & ~running, NOW - 100.0, np.nan), rng.random(jobs) < 0.95,
            np.ones(jobs, bool), asked,
        ),
        Nodes(
            tuple(f"gpu{row:05}" for row in range(nodes)), np.full(nodes, GPUS_PER_NODE), Resources(free),
            np.ones(nodes, bool), topology(nodes, 1), ("",) * nodes,
            tuple(frozenset({"ib"}) if row % 2 else frozenset() for row in range(nodes)),
        ),
        Allocations(job.astype(np.int64), node.astype(np.int64), Resources.of(held, cpus, memory)),
    )  # fmt: skip


def topology(nodes: int, levels: int) -> Topology:
    """Leaf switches of 32 nodes each; with a second level, pods of 16 leaf switches."""
    leaf = np.arange(nodes) // NODES_OF_A_LEAF
    return Topology.of_groups(np.full(nodes, GPUS_PER_NODE), (leaf, leaf // LEAVES_OF_A_POD)[:levels])


def placements(gpus: np.ndarray, asked: tuple[Request, ...], free: np.ndarray) -> list[tuple[float, ...]]:
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


def settled(state: Snapshot) -> Snapshot:
    """After everything that is planned has been done, until nothing is left to do."""
    while (plan := decide(state, CONFIG)).starts or plan.preemptions:
        row_of = {job: row for row, job in enumerate(state.jobs.id)}
        gone = [row_of[one.job] for one in plan.preemptions]
        state = ended(state, gone, JobState.WAITING)
        state.jobs.preempted[gone] = NOW - 1.0
        node_of = {name: row for row, name in enumerate(state.nodes.name)}
        new = [
            (row_of[start.job], node_of[name], *amounts(state.jobs.request[row_of[start.job]], gpus))
            for start in (*plan.starts, *plan.reserved)
            for name, gpus in start.nodes
        ]
        state = placed(state, np.array(new, dtype=float).reshape(-1, 5))
    return state


def placed(state: Snapshot, new: np.ndarray) -> Snapshot:
    jobs, nodes, held = state.jobs, state.nodes, state.allocations
    job, node = new[:, 0].astype(np.int64), new[:, 1].astype(np.int64)
    status, start = jobs.state.copy(), jobs.last_start.copy()
    status[job], start[job] = JobState.RUNNING, NOW - 1.0
    held = Allocations(
        np.concatenate((held.job, job)),
        np.concatenate((held.node, node)),
        joined([held.resources, Resources(new[:, 2:])]),
    )
    return replace(
        state,
        jobs=replace(jobs, state=status, last_start=start, first_start=np.fmin(jobs.first_start, start)),
        nodes=freed(nodes, node, -new[:, 2:]),
        allocations=held,
    )


def freed(nodes: Nodes, node: np.ndarray, amount: np.ndarray) -> Nodes:
    free = nodes.free.amount.copy()
    np.add.at(free, node, amount)
    return replace(nodes, free=Resources.of(free[:, 0].round(), free[:, 1], free[:, 2]))


def ended(state: Snapshot, rows: list[int], becomes: JobState) -> Snapshot:
    jobs, held = state.jobs, state.allocations
    status = jobs.state.copy()
    status[rows] = becomes
    gone = np.isin(held.job, rows)
    amount = held.resources.amount[gone]
    kept = rows_of(held, np.flatnonzero(~gone))
    return replace(
        state,
        jobs=replace(jobs, state=status, preempted=jobs.preempted.copy()),
        nodes=freed(state.nodes, held.node[gone], amount),
        allocations=kept,
    )


def churned(state: Snapshot, seed: int, count: int = 0) -> Snapshot:
    """Half a minute later: some jobs have ended (their rows become new arrivals), and as many have sunk a queue.

    `count`: how many; 0: 1% of the running jobs.
    """
    rng = np.random.default_rng(seed)
    running = np.flatnonzero(state.jobs.state == JobState.RUNNING)
    over, sank = np.split(rng.choice(running, (count or len(running) // 100) * 2, replace=False), 2)
    state = ended(state, over.tolist(), JobState.WAITING)
    jobs = state.jobs
    columns = {
        name: getattr(jobs, name).copy()
        for name in ("attained", "ran", "waited", "submit", "last_start", "first_start")
    }
    columns["attained"][over] = columns["ran"][over] = columns["waited"][over] = 0.0
    columns["submit"][over], columns["last_start"][over], columns["first_start"][over] = NOW, np.nan, np.nan
    columns["attained"][sank] = np.maximum(columns["attained"][sank], 3300.0)
    return replace(state, jobs=replace(jobs, **columns))


def measure(cases: list[Snapshot], repeat: int) -> dict[str, float]:
    """Milliseconds of processor time, so that other work on the machine does not count."""
    plans, seconds = [], []
    for turn in range(repeat):
        began = time.process_time()
        plans.append(decide(cases[turn % len(cases)], CONFIG))
        seconds.append(time.process_time() - began)
    p50, p99 = np.percentile(seconds, (50, 99)) * 1e3
    some = plans[: len(cases)]
    return {
        "jobs": len(cases[0].jobs),
        "nodes": len(cases[0].nodes),
        "repeat": repeat,
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "starts": round(float(np.mean([len(plan.starts) for plan in some]))),
        "reserved": round(float(np.mean([len(plan.reserved) for plan in some]))),
        "preemptions": round(float(np.mean([len(plan.preemptions) for plan in some]))),
    }


def measure_size(jobs: int, nodes: int, repeat: int) -> dict[str, dict[str, float]]:
    busy = [snapshot(jobs, nodes, True, seed) for seed in range(3)]
    steady = [churned(settled(one), seed) for seed, one in enumerate(busy)]
    cold = [snapshot(jobs, nodes, False, seed) for seed in range(3)]
    few = max(repeat // 20, 5)
    return {"steady": measure(steady, repeat), "storm": measure(busy, few), "cold": measure(cold, few)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--large", action="store_true", help="also 100,000 jobs on 16,000 nodes")
    args = parser.parse_args()
    result = {"10k": measure_size(10_000, 2_000, args.repeat)}
    if args.large:
        result["100k"] = measure_size(100_000, 16_000, max(args.repeat // 10, 10))
    print(json.dumps({"machine": platform.processor() or platform.machine(), **result}, indent=2))


if __name__ == "__main__":
    main()
