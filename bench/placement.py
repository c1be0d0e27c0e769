"""How long placement takes, over the nodes of the cluster and by style; and what the optimum takes. One core; prints JSON.

    python bench/placement.py [--repeat 20] [--limit 10]

decide      10,000 pending jobs, all new, ranked and placed at once by `decide`. empty: thousands start. full: an ordinary cycle,
            one node of a hundred has 1 to 7 GPUs free. fragmented: each node has 0 to 3 free, so that large jobs would lie across
            many. Styles: all consolidate, all spread, mixed: by Table 6 four jobs of ten consolidate, and wait for the fewest
            nodes. Bar: 250 ms on 16,000 nodes
optimum     one VGG16 of 16 workers by appendix D and by "fewest nodes, fewest switches, least left over", as exact programs,
            beside what `consolidate` takes for it, on nodes with 1 to 4 GPUs free. null: more than --limit seconds
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from decide import GPUS_PER_NODE, NOW, measure, snapshot, topology

from tiresias.scheduler.model import ANYWHERE, Snapshot, Style
from tiresias.scheduler.place import consolidate, optimum
from tiresias.scheduler.place.candidate_nodes import CandidateNodes
from tiresias.scheduler.resources import Resources
from tiresias.simulator.models import MODELS
from tiresias.simulator.simulated_placement import PACKLIMIT, WAIT_LIMIT_S

JOBS, NODES = 10_000, (1_000, 2_000, 4_000, 8_000, 16_000)
SMALL = (8, 10, 12, 16, 20, 24)
WORKERS = 16


CLUSTERS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {  # GPUs free on each node
    "empty": lambda nodes, rng: np.full(nodes, GPUS_PER_NODE),
    "full": lambda nodes, rng: np.where(rng.random(nodes) < 0.01, rng.integers(1, GPUS_PER_NODE, nodes), 0),
    "fragmented": lambda nodes, rng: rng.integers(0, 4, nodes),
}


def pending(nodes: int, style: Style | None, cluster: str, seed: int) -> Snapshot:
    """style: None for mixed."""
    rng = np.random.default_rng(seed)
    empty = snapshot(JOBS, nodes, False, seed)
    free = CLUSTERS[cluster](nodes, rng)
    described = replace(empty.nodes, free=Resources.of(free, free * 16.0, free * 125e3), topology=topology(nodes, 2))
    styles = mixed(rng) if style is None else np.full(JOBS, style)
    until = np.where(styles == Style.CONSOLIDATE, NOW + WAIT_LIMIT_S, 0.0) if style is None else np.zeros(JOBS)
    return replace(empty, jobs=replace(empty.jobs, style=styles, packed_until=until), nodes=described)


def mixed(rng: np.random.Generator) -> np.ndarray:
    skew = np.array([model.skew for model in MODELS.values()])[rng.integers(0, len(MODELS), JOBS)]
    return np.where(skew > PACKLIMIT, Style.CONSOLIDATE, Style.SPREAD)


def measure_decide(repeat: int) -> list[dict[str, float | str]]:
    styles = {"mixed": None, "consolidate": Style.CONSOLIDATE, "spread": Style.SPREAD}
    cases = [(nodes, name) for nodes in NODES for name in styles if name == "mixed" or nodes == NODES[-1]]
    return [
        {"cluster": cluster, "style": name}
        | measure([pending(nodes, styles[name], cluster, seed) for seed in range(3)], repeat)
        for cluster in CLUSTERS
        for nodes, name in cases
    ]


def measure_optimum(limit: float) -> list[dict[str, float | None]]:
    """The median of three clusters; a program that took too long is not tried on more nodes."""
    rows, beaten = [], set()
    for nodes in SMALL:
        row: dict[str, float | None] = {"nodes": nodes}
        for name, solve in programs(limit).items():
            times = [None] if name in beaten else [milliseconds(solve, nodes, seed) for seed in range(3)]
            known = [each for each in times if each is not None]
            row[name] = round(float(np.median(known)), 3) if len(known) == len(times) else None
            beaten |= set() if row[name] is not None else {name}
        rows.append(row)
    return rows


def programs(limit: float) -> dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], object]]:
    """Each of GPUs free, leaves and traffic."""
    vgg = MODELS["vgg16"]
    tensors = np.full(WORKERS, (vgg.size - vgg.largest) / WORKERS)
    tensors[0] += vgg.largest
    return {
        "appendix_d_ms": lambda free, leaf, traffic: optimum.place(free, traffic, tensors, WORKERS, limit),
        "exact_packing_ms": lambda free, leaf, traffic: optimum.pack(free, leaf, WORKERS, limit),
        "consolidate_ms": lambda free, leaf, traffic: consolidate.uneven(
            ANYWHERE, WORKERS, CandidateNodes(free, (leaf,))
        ),
    }


def milliseconds(solve: Callable[..., object], nodes: int, seed: int) -> float | None:
    rng = np.random.default_rng([seed, nodes])
    free = rng.integers(1, 5, nodes)
    traffic = rng.random(nodes) * MODELS["vgg16"].size / 2
    began = time.process_time()
    try:
        solve(free, np.arange(nodes) // 4, traffic)
    except TimeoutError:
        return None
    return (time.process_time() - began) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds that an exact program may take")
    args = parser.parse_args()
    result = {"decide": measure_decide(args.repeat), "optimum": measure_optimum(args.limit)}
    print(json.dumps({"machine": platform.processor() or platform.machine(), **result}, indent=2))


if __name__ == "__main__":
    main()
