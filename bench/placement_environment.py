"""Placements a second of the stepping interface for learned placements, on one core. Prints JSON.

    python bench/placement_environment.py [--topology vl2:4,4,16] [--jobs 400] [--seeds 3]

Each placement is one task, observed before it and put on the group with the most free GPUs. Placements that spread jobs so are the
slowest to simulate, as each job then shares links with all others.
"""

from __future__ import annotations

import argparse
import json
import platform
import time

from tiresias.simulator import ClusterSize, PlacementEnvironment, PlacementWorkload, network_of


def episode(environment: PlacementEnvironment, seed: int) -> tuple[int, float]:
    """Return the placements of an episode, and the CPU seconds that they take."""
    view, placements = environment.reset(seed), 0
    began = time.process_time()
    while True:
        placements += 1
        if environment.step(int(view.free.argmax())).done:
            return placements, time.process_time() - began
        view = environment.observe()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="vl2:4,4,16")
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    cluster = ClusterSize.of_network(network_of(args.topology))
    found = {}
    for load in (0.3, 0.7, 1.0):
        environment = PlacementEnvironment(cluster, PlacementWorkload(jobs=args.jobs, load=load).trace)
        placements, seconds = map(sum, zip(*(episode(environment, seed) for seed in range(args.seeds)), strict=True))
        found[f"load {load:g}"] = {"placements": placements, "placements_per_second": round(placements / seconds)}
    print(json.dumps({"servers": cluster.nodes, "machine": platform.machine(), "environment": found}, indent=2))


if __name__ == "__main__":
    main()
